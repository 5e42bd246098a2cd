/**
 * Wraps the bundle so that books do not commit their own groups: a few objects take the ready
 * groups of many books and commit them in one batch. Each group keeps its own row in
 * `commit_groups`, so each book fences its own. A prototype to measure, not to run: a batch that
 * fails is repeated group by group, and no order between groups is kept.
 */
import worker, { Feed, RfqBook } from "./worker.js";

export * from "./worker.js";

/** Zero: each book commits its own groups. Shared by the objects, which are in one isolate. */
let shards = 0;
let counts = { batches: 0, groups: 0 };
const MAX_GROUPS = 32;

class Committer extends Feed {
  #waiting = [];
  #running = false;

  /** One group: the text and parameters of each statement. Returns the rows of each. */
  commitGroup(statements) {
    const group = Promise.withResolvers();
    this.#waiting.push({ statements, group });
    if (!this.#running) void this.#run();
    return group.promise;
  }

  async #run() {
    this.#running = true;
    while (this.#waiting.length > 0) {
      const taken = this.#waiting.splice(0, MAX_GROUPS);
      try {
        await this.#commit(taken);
      } catch {
        for (const one of taken) await this.#commit([one]).catch(one.group.reject);
      }
    }
    this.#running = false;
  }

  async #commit(taken) {
    const { DB } = this.env;
    const results = await DB.batch(
      taken.flatMap(({ statements }) =>
        statements.map(({ text, params }) => DB.prepare(text).bind(...params)),
      ),
    );
    counts.batches += 1;
    counts.groups += taken.length;
    let from = 0;
    for (const { statements, group } of taken) {
      group.resolve(results.slice(from, from + statements.length).map(({ results: rows }) => rows));
      from += statements.length;
    }
  }
}
export { Committer as Feed };

class SharingBook extends RfqBook {
  constructor(ctx, env) {
    super(ctx, { ...env, DB: sharedDatabase(env, ctx.id.name ?? "") });
  }
}
export { SharingBook as RfqBook };

function sharedDatabase({ DB, FEED }, book) {
  const statementOf = (text, inner, params) => ({
    text,
    params,
    inner,
    bind: (...values) => statementOf(text, inner.bind(...values), values),
    all: () => inner.all(),
    run: () => inner.run(),
    first: (...args) => inner.first(...args),
    raw: (...args) => inner.raw(...args),
  });
  return {
    prepare: (text) => statementOf(text, DB.prepare(text), []),
    async batch(statements) {
      if (shards === 0) return DB.batch(statements.map(({ inner }) => inner));
      const shard = Number.parseInt(book.slice(-4), 16) % shards;
      const rows = await FEED.getByName(`venue:committer${shard}`).commitGroup(
        statements.map(({ text, params }) => ({ text, params })),
      );
      return rows.map((results) => ({ results }));
    },
  };
}

export default {
  ...worker,
  async fetch(request, env, context) {
    const url = new URL(request.url);
    if (url.pathname !== "/bench/committers") return worker.fetch(request, env, context);
    const before = counts;
    shards = Number(url.searchParams.get("shards"));
    counts = { batches: 0, groups: 0 };
    return Response.json(before);
  },
};
