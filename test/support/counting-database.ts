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

/** The test database with a count of its round trips. */
export function countingCalls(): { readonly db: D1Database; readonly count: () => number } {
  let calls = 0;
  const counted = <Target extends object>(target: Target, names: readonly string[]): Target =>
    new Proxy(target, {
      get: (object, name) => {
        const member: unknown = Reflect.get(object, name);
        if (typeof member !== "function") return member;
        return (...given: unknown[]) => {
          if (names.includes(String(name))) calls += 1;
          const result: unknown = Reflect.apply(member, object, given);
          return name === "prepare" || name === "bind"
            ? counted(result as object, ["all", "first", "raw", "run"])
            : result;
        };
      },
    });
  return { db: counted(env.DB, ["batch"]), count: () => calls };
}
