/** The test database. It counts the rows that its queries read. */
import { env } from "cloudflare:workers";

export class CountingDatabase {
  rowsRead = 0;
  readonly db = new Proxy(env.DB, {
    get: (db, name) => {
      if (name === "batch")
        return async (statements: D1PreparedStatement[]) => this.#count(await db.batch(statements));
      if (name !== "prepare") return Reflect.get(db, name) as unknown;
      return (text: string) => ({ bind: (...values: unknown[]) => this.#bound(text, values) });
    },
  });

  #bound(text: string, values: unknown[]): D1PreparedStatement {
    return new Proxy(env.DB.prepare(text).bind(...values), {
      get: (statement, name) => {
        if (name === "all" || name === "run")
          return async () => this.#count([await statement.all()])[0];
        const value: unknown = Reflect.get(statement, name);
        return typeof value === "function" ? value.bind(statement) : value;
      },
    });
  }

  #count(results: D1Result[]): D1Result[] {
    for (const { meta } of results) this.rowsRead += meta.rows_read;
    return results;
  }
}

export async function rowsReadBy(run: (db: D1Database) => Promise<unknown>): Promise<number> {
  const counting = new CountingDatabase();
  await run(counting.db);
  return counting.rowsRead;
}
