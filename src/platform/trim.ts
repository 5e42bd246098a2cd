/** Deletes old rows in chunks, so that no statement blocks D1 for long. */
import { NOW } from "./commit.ts";
import { queriesLeft } from "./query-limit.ts";
import { batch, raw, type Sql, sql } from "./sql.ts";

const ROWS_PER_CHUNK = 5_000;
/** Statements of one batch, so that no batch blocks D1 for long either. */
const PER_BATCH = 4;
const BUDGET_MS = 10_000;

/** Deletes at most the given number of rows, and returns one row for each. */
export type Trim = (rows: number) => Sql;

/** `rest` follows the name of the table in a SELECT. `key` identifies a row. Both are trusted. */
export function rowsOf(table: string, key: string, rest: Sql): Trim {
  return (rows) => sql`DELETE FROM ${raw(table)} WHERE (${raw(key)}) IN (
    SELECT ${raw(key)} FROM ${raw(table)} ${rest} LIMIT ${rows}) RETURNING 1`;
}

/** Repeats each until no rows remain, or time or queries are spent. Returns the number of rows. */
export async function trimUntilDone(db: D1Database, ...trims: readonly Trim[]): Promise<number> {
  const started = Date.now();
  const due = [...trims];
  let deleted = 0;
  while (due.length > 0 && Date.now() - started <= BUDGET_MS && queriesLeft(db) > PER_BATCH) {
    const next = due.splice(0, PER_BATCH);
    const rows = await batch(
      db,
      next.map((trim) => trim(ROWS_PER_CHUNK)),
    );
    deleted += rows.flat().length;
    due.push(...next.filter((_, index) => rows[index]?.length === ROWS_PER_CHUNK));
  }
  return deleted;
}

/** Keeps the latest group, because `NOW` must not go below it. Reads only the oldest groups. */
export async function trimGroups(db: D1Database, keepMs: number): Promise<void> {
  await trimUntilDone(
    db,
    (rows) => sql`DELETE FROM commit_groups WHERE seq IN (
    SELECT seq FROM (SELECT seq, at FROM commit_groups ORDER BY seq LIMIT ${rows})
    WHERE at < ${NOW} - ${keepMs} AND seq < (SELECT max(seq) FROM commit_groups))
    RETURNING 1`,
  );
}
