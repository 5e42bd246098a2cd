/**
 * Wraps the bundle to observe D1: counts the Worker's calls and records when a book's batches
 * returned. Throughput is measured without it.
 */
import worker, { RfqBook } from "./worker.js";

export * from "./worker.js";

let calls = 0;
const ofWorker = new WeakMap();

/** One copy per env, because the Worker caches its parsed settings by env. */
function watchedByWorker(env) {
  let copy = ofWorker.get(env);
  if (copy === undefined) {
    copy = watched(
      env,
      () => void calls++,
      () => {},
    );
    ofWorker.set(env, copy);
  }
  return copy;
}

function watched(env, onCall, onBatch) {
  return { ...env, DB: watchedDatabase(env.DB, onCall, onBatch) };
}

function watchedDatabase(db, onCall, onBatch) {
  return {
    prepare: (text) => watchedStatement(db.prepare(text), text, onCall),
    batch: async (statements) => {
      onCall();
      const results = await db.batch(statements.map((statement) => statement.inner ?? statement));
      onBatch(statements[0]?.text, Date.now());
      return results;
    },
  };
}

function watchedStatement(inner, text, onCall) {
  const counted =
    (method) =>
    (...args) => {
      onCall();
      return inner[method](...args);
    };
  return {
    inner,
    text,
    bind: (...params) => watchedStatement(inner.bind(...params), text, onCall),
    all: counted("all"),
    first: counted("first"),
    run: counted("run"),
    raw: counted("raw"),
  };
}

class WatchedBook extends RfqBook {
  constructor(ctx, env) {
    const batches = [];
    super(
      ctx,
      watched(
        env,
        () => {},
        (first, at) => batches.push({ first, at }),
      ),
    );
    this.batches = batches;
  }

  benchBatches() {
    return this.batches.splice(0);
  }
}
export { WatchedBook as RfqBook };

export default {
  ...worker,
  async fetch(request, env, context) {
    const url = new URL(request.url);
    if (url.pathname === "/bench/d1-calls") return Response.json({ calls });
    if (url.pathname === "/bench/batches")
      return Response.json(
        await env.RFQ_BOOK.getByName(url.searchParams.get("book")).benchBatches(),
      );
    return worker.fetch(request, watchedByWorker(env), context);
  },
};
