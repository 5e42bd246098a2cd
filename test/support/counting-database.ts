/** The test database. It counts the rows that its queries read. */
import { env } from "cloudflare:workers";

export class CountingDatabase {
  rowsRead = 0;
  readonly db = new Proxy(env.DB, {
    get: (db, name) => {
      if (name !== "prepare") return Reflect.get(db, name) as unknown;
      return (text: string) => ({
        bind: (...values: unknown[]) => ({
          all: async () => {
            const result = await db
              .prepare(text)
              .bind(...values)
              .all();
            this.rowsRead += result.meta.rows_read;
            return result;
          },
        }),
      });
    },
  });
}
