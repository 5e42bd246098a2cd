/**
 * Wraps the bundle to add the network that a local stack lacks, and to count what Cloudflare bills.
 * Every call of D1 takes `d1Ms` longer, every call of an object and every frame of a client
 * `objectMs`, half of it on the way there. Equal delays keep the order of calls.
 */
import worker, { Cron, Feed, RfqBook } from "./worker.js";

export * from "./worker.js";

const NOTHING = {
  requests: 0,
  objectCalls: 0,
  frames: 0,
  d1Calls: 0,
  rowsRead: 0,
  rowsWritten: 0,
};
/** By the beginning of its text, what each statement was billed. */
let statements = new Map();
/** Shared by the Worker and its objects, because workerd runs them in one isolate. */
let meter = { ...NOTHING };
let network = { d1Ms: 0, objectMs: 0 };

const pause = (ms) => (ms > 0 ? new Promise((resolve) => setTimeout(resolve, ms)) : undefined);

async function far(ms, call) {
  const started = Date.now();
  await pause(Math.floor(ms / 2));
  // A timer of workerd is late by a millisecond or more, which the way back makes up for.
  const gone = Date.now() - started;
  const result = await call();
  await pause(ms - gone);
  return result;
}

/** One copy per env, because the Worker caches its parsed settings by env. */
const copies = new WeakMap();

function farEnv(env) {
  let copy = copies.get(env);
  if (copy === undefined) {
    copy = {
      ...env,
      DB: farDatabase(env.DB),
      RFQ_BOOK: farObjects(env.RFQ_BOOK),
      FEED: farObjects(env.FEED),
    };
    copies.set(env, copy);
  }
  return copy;
}

/** By SQL text: whether its columns have different names, so that an object keeps all of them. */
const namesDiffer = new Map();

async function hasDistinctNames(text, statement) {
  let distinct = namesDiffer.get(text);
  if (distinct === undefined) {
    const [names] = await statement.raw({ columnNames: true });
    distinct = new Set(names).size === names.length;
    namesDiffer.set(text, distinct);
  }
  return distinct;
}

/**
 * The part of D1 that src/ uses. Results of `all`, `run` and `batch` carry D1's own meter. `first`
 * and `raw` do not, so they are `all` here.
 */
function farDatabase(db) {
  const ask = async (call, ...texts) => {
    meter.d1Calls += 1;
    const answer = await far(network.d1Ms, call);
    for (const [index, { meta }] of (Array.isArray(answer) ? answer : [answer]).entries()) {
      meter.rowsRead += meta.rows_read;
      meter.rowsWritten += meta.rows_written;
      count(texts[index], meta);
    }
    return answer;
  };
  const statementOf = (text, inner) => ({
    text,
    inner,
    bind: (...params) => statementOf(text, inner.bind(...params)),
    all: () => ask(() => inner.all(), text),
    run: () => ask(() => inner.run(), text),
    first: async () => (await ask(() => inner.all(), text)).results[0] ?? null,
    raw: async () => {
      const distinct = await hasDistinctNames(text, inner);
      const { results } = await ask(() => inner.all(), text);
      return distinct ? results.map((row) => Object.values(row)) : inner.raw();
    },
  });
  return {
    prepare: (text) => statementOf(text, db.prepare(text)),
    batch: (batch) =>
      ask(() => db.batch(batch.map(({ inner }) => inner)), ...batch.map(({ text }) => text)),
  };
}

const NAME_LENGTH = 90;

function count(text, { rows_read: rowsRead, rows_written: rowsWritten }) {
  const name = text.replaceAll(/\s+/g, " ").slice(0, NAME_LENGTH);
  const sum = statements.get(name) ?? { name, calls: 0, rowsRead: 0, rowsWritten: 0 };
  sum.calls += 1;
  sum.rowsRead += rowsRead;
  sum.rowsWritten += rowsWritten;
  statements.set(name, sum);
}

function farObjects(namespace) {
  return {
    getByName: (...args) =>
      new Proxy(namespace.getByName(...args), {
        get:
          (stub, method) =>
          (...params) => {
            meter.objectCalls += 1;
            return far(network.objectMs, () => stub[method](...params));
          },
      }),
  };
}

function farObject(Base) {
  return class extends Base {
    constructor(ctx, env) {
      super(ctx, farEnv(env));
    }

    async webSocketMessage(socket, frame) {
      meter.frames += 1;
      // The whole delay, because the way back cannot be wrapped.
      await pause(network.objectMs);
      return super.webSocketMessage(socket, frame);
    }
  };
}

class FarBook extends farObject(RfqBook) {}
class FarFeed extends farObject(Feed) {}
class FarCron extends farObject(Cron) {}
export { FarBook as RfqBook, FarFeed as Feed, FarCron as Cron };

export default {
  ...worker,
  async fetch(request, env, context) {
    const { pathname } = new URL(request.url);
    if (pathname === "/bench/network") {
      network = await request.json();
      return Response.json(network);
    }
    if (pathname === "/bench/meter") {
      const read = { ...meter, statements: [...statements.values()] };
      meter = { ...NOTHING };
      statements = new Map();
      return Response.json(read);
    }
    meter.requests += 1;
    return worker.fetch(request, farEnv(env), context);
  },
};
