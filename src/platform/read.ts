/**
 * Plain reads, written with drizzle's query builder over the tables of `src/<domain>/tables.ts`:
 * rows of such a table by conditions, with order and limit. Everything else is SQL (sql.ts):
 * what joins, sums, needs an index hint or the clock of the database, shares a condition with a
 * guard, or is on the path of a quote or an accept.
 */
import { type Column, type SQL, sql } from "drizzle-orm";
import { drizzle, type DrizzleD1Database } from "drizzle-orm/d1";
import { checkLimits } from "./sql.ts";

type Reader = Pick<DrizzleD1Database, "select">;

const readers = new WeakMap<D1Database, Reader>();

/** Runs one SELECT and returns its rows: `read(db, ({ select }) => select().from(alerts))`. */
export async function read<Rows>(
  db: D1Database,
  query: (reader: Reader) => PromiseLike<Rows>,
): Promise<Rows> {
  try {
    return await query(readerOf(db));
  } catch (error) {
    // What drizzle's `DrizzleQueryError` wraps. The wrapper's message lists the values of all
    // parameters, which must not reach a log, and its cause is lost on the way to another object.
    throw error instanceof Error && "params" in error ? error.cause : error;
  }
}

/** Condition: the column has one of these values. `inArray` would bind each, and D1 binds 100. */
export function isAmong(column: Column, values: readonly (string | number)[]): SQL {
  return sql`${column} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`;
}

function readerOf(db: D1Database): Reader {
  const known = readers.get(db);
  if (known !== undefined) return known;
  const builder = drizzle(db, { logger: { logQuery: checkLimits } });
  // Safe cast: `bind` keeps the signatures, but its type knows only the last overload of each.
  const reader = { select: builder.select.bind(builder) } as Reader;
  readers.set(db, reader);
  return reader;
}
