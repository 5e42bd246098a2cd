/** Deletes old rows in chunks, so that no statement blocks D1 for long. */
import { queriesLeft } from "./query-limit.ts";
import { prepare, raw, type Sql, sql } from "./sql.ts";

const ROWS_PER_CHUNK = 5_000;
/** Statements of one batch, so that no batch blocks D1 for long either. */
const PER_BATCH = 4;
const BUDGET_MS = 10_000;

/** Deletes at most the given number of rows, and returns one row for each. */
export type Trim = (rows: number) => Sql;

/**
 * Deletes the rows of `table` that a SELECT finds, of which `rest` is what follows the name of the
 * table. `key` are columns that identify a row. Both are trusted.
 */
export function rowsOf(table: string, key: string, rest: Sql): Trim {
  return (rows) => sql`DELETE FROM ${raw(table)} WHERE (${raw(key)}) IN (
    SELECT ${raw(key)} FROM ${raw(table)} ${rest} LIMIT ${rows}) RETURNING 1`;
}

/**
 * Repeats each statement until no rows remain for it, or the time or the queries of this invocation
 * are spent. Returns how many rows were deleted.
 */
export async function trimUntilDone(db: D1Database, ...trims: readonly Trim[]): Promise<number> {
  const started = Date.now();
  let due = [...trims];
  let deleted = 0;
  while (due.length > 0 && Date.now() - started <= BUDGET_MS && queriesLeft(db) > PER_BATCH) {
    const batch = due.splice(0, PER_BATCH);
    const results = await db.batch(batch.map((trim) => prepare(db, trim(ROWS_PER_CHUNK))));
    const counts = results.map(({ results: rows }) => rows.length);
    deleted += counts.reduce((sum, count) => sum + count, 0);
    due = [...due, ...batch.filter((_, index) => counts[index] === ROWS_PER_CHUNK)];
  }
  return deleted;
}
