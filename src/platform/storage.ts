/**
 * D1 limits a database to 10 GB. Everything new stops before that, so that what users have can
 * always be settled and withdrawn.
 */
import { NOW } from "./commit.ts";
import { log } from "./log.ts";
import type { Precondition } from "./preconditions.ts";
import { Problem, type ProblemData, unavailable } from "./problem.ts";
import { all, type Expr, expr, first, prepare, sql } from "./sql.ts";

const LIMIT_BYTES = 10 * 1_000_000_000;
const ALERT_SHARE = 0.7;
const STOP_SHARE = 0.8;

/** After the switch was set, cron looks at the size again in a minute. */
const RETRY_SECS = 60;

/**
 * Guard condition of commands that take space for something new. Accepts, releases, settlements,
 * credits, withdrawals, revocations and freezes never have it: a fifth of the limit stays for them.
 */
export const STORAGE_LEFT: Expr = expr`NOT EXISTS (
  SELECT 1 FROM kill_switches WHERE name = 'storage_full')`;

export function storageFull(): ProblemData {
  const detail =
    "The database is nearly full, so nothing new is stored. Accepts, cancels, deposits, " +
    "withdrawals and revocations continue.";
  return { ...unavailable("none", detail).data, retryAfterSecs: RETRY_SECS };
}

/** The condition as a precondition whose rejection throws. */
export const storagePrecondition: Precondition<unknown, never> = {
  expr: STORAGE_LEFT,
  reject: () => {
    throw new Problem(storageFull());
  },
};

/** Throws if the switch is set, for commands without a guard of their own. */
export async function requireStorage(db: D1Database): Promise<void> {
  const row = await first<{ left: number }>(db, sql`SELECT ${STORAGE_LEFT} AS left`);
  if (row?.left !== 1) throw new Problem(storageFull());
}

/** Cron task: compares the size that D1 reports with the limit and sets or clears the switch. */
export async function watchStorage(db: D1Database): Promise<void> {
  const { meta } = await prepare(db, sql`SELECT 1`).run();
  const share = meta.size_after / LIMIT_BYTES;
  if (share >= ALERT_SHARE) log("error", "storage.filling", { bytes: meta.size_after, share });
  if (share >= STOP_SHARE) {
    await all(
      db,
      sql`INSERT INTO kill_switches (name, reason, since)
      SELECT 'storage_full', ${`${meta.size_after} bytes`}, ${NOW}
      WHERE NOT EXISTS (SELECT 1 FROM kill_switches WHERE name = 'storage_full')`,
    );
  } else {
    await all(db, sql`DELETE FROM kill_switches WHERE name = 'storage_full'`);
  }
}
