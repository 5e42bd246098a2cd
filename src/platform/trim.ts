/** Deletes old rows in chunks, so that no statement blocks D1 for long. */
import { all, type Sql } from "./sql.ts";

const ROWS_PER_CHUNK = 5_000;
const BUDGET_MS = 10_000;

/**
 * Repeats `statement` until no rows remain or the time budget is spent. `statement` deletes at most
 * the given number of rows and returns one row for each.
 */
export async function trimUntilDone(
  db: D1Database,
  statement: (rows: number) => Sql,
): Promise<number> {
  const started = Date.now();
  let deleted = 0;
  for (;;) {
    const chunk = (await all(db, statement(ROWS_PER_CHUNK))).length;
    deleted += chunk;
    if (chunk < ROWS_PER_CHUNK || Date.now() - started > BUDGET_MS) return deleted;
  }
}
