/**
 * Wraps the bundle to count rate limits in memory, as Cloudflare does on the machine of the Worker.
 * Miniflare's binding is a Durable Object: a call takes a tenth of a millisecond of the one thread,
 * and a signed request makes three.
 */
import worker, { Feed, RfqBook } from "./worker.js";

export * from "./worker.js";

/** A limiter of fixed windows. Shared by the Worker and its objects, which are in one isolate. */
function newLimiter({ limit, period }) {
  let counts = new Map();
  let since = 0;
  return {
    limit: async ({ key }) => {
      const at = Date.now();
      if (at - since >= 1_000 * period) {
        counts = new Map();
        since = at;
      }
      const count = (counts.get(key) ?? 0) + 1;
      counts.set(key, count);
      return { success: count <= limit };
    },
  };
}

let limiters;
/** One copy per env, because the Worker caches its parsed settings by env. */
const copies = new WeakMap();

function withLimiters(env) {
  limiters ??= Object.fromEntries(
    Object.entries(JSON.parse(env.BENCH_RATE_LIMITS)).map(([name, simple]) => [
      name,
      newLimiter(simple),
    ]),
  );
  let copy = copies.get(env);
  if (copy === undefined) {
    copy = { ...env, ...limiters };
    copies.set(env, copy);
  }
  return copy;
}

function limitedObject(Base) {
  return class extends Base {
    constructor(ctx, env) {
      super(ctx, withLimiters(env));
    }
  };
}

class LimitedBook extends limitedObject(RfqBook) {}
class LimitedFeed extends limitedObject(Feed) {}
export { LimitedBook as RfqBook, LimitedFeed as Feed };

export default {
  ...worker,
  fetch: (request, env, context) => worker.fetch(request, withLimiters(env), context),
};
