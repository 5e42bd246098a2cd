/** Deleting what has grown old, in slices that never hold D1 for long, until it is done or the time is up. */
import { all, type Sql } from "./sql.ts";

const ROWS_PER_SLICE = 5_000;
const BUDGET_MS = 10_000;

/** `statement` deletes at most the given number of rows and returns one row for each. */
export async function trimUntilDone(
  db: D1Database,
  statement: (rows: number) => Sql,
): Promise<number> {
  const started = Date.now();
  let deleted = 0;
  for (;;) {
    const slice = (await all(db, statement(ROWS_PER_SLICE))).length;
    deleted += slice;
    if (slice < ROWS_PER_SLICE || Date.now() - started > BUDGET_MS) return deleted;
  }
}
