/** Nothing new is stored near D1's limit of 10 GB, so that users can still settle and withdraw. */
import { alertWhile } from "./alert.ts";
import { NOW } from "./commit.ts";
import type { Config } from "./config.ts";
import { required } from "./preconditions.ts";
import { Problem, type ProblemData, unavailable } from "./problem.ts";
import { all, type Expr, expr, first, holds, prepare, sql } from "./sql.ts";

const ALERT_SHARE = 0.7;
export const STOP_SHARE = 0.8;

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

export const storagePrecondition = required(STORAGE_LEFT, storageFull);

/** Throws if the switch is set, for commands without a guard of their own. */
export async function requireStorage(db: D1Database): Promise<void> {
  if (!(await holds(db, STORAGE_LEFT))) throw new Problem(storageFull());
}

export function limitBytes(settings: Pick<Config, "STORAGE_LIMIT_MB">): number {
  return settings.STORAGE_LIMIT_MB * 1_000_000;
}

export async function databaseBytes(db: D1Database): Promise<number> {
  const { meta } = await prepare(db, sql`SELECT 1`).run();
  return meta.size_after;
}

/**
 * Cron task: sets or clears the switch, and calls somebody before. D1 shrinks as rows are deleted,
 * so trimming clears it.
 */
export async function watchStorage(
  db: D1Database,
  settings: Pick<Config, "STORAGE_LIMIT_MB">,
): Promise<void> {
  const bytes = await databaseBytes(db);
  const share = bytes / limitBytes(settings);
  const used = `${bytes} of ${limitBytes(settings)} bytes are used`;
  const filling = `${used}. New business stops at ${STOP_SHARE * 100} %.`;
  await alertWhile(db, "storage_filling", "d1", share < ALERT_SHARE ? undefined : filling);
  const full = sql`kill_switches WHERE name = 'storage_full'`;
  await all(
    db,
    share >= STOP_SHARE
      ? sql`INSERT INTO kill_switches (name, reason, since)
          SELECT 'storage_full', ${`${used}. New requests and quotes are refused.`}, ${NOW}
          WHERE NOT EXISTS (SELECT 1 FROM ${full})`
      : sql`DELETE FROM ${full}`,
  );
  await all(
    db,
    sql`INSERT INTO storage_samples (day, at, bytes)
      SELECT ${TODAY}, ${NOW}, ${BigInt(bytes)}
      WHERE NOT EXISTS (SELECT 1 FROM storage_samples WHERE day = ${TODAY})`,
  );
}

/** SQL: the number of the day. A literal, because D1 binds a number as REAL. */
const TODAY = expr`${NOW} / 86400000`;
/** Growth is measured over this time, or over what is known if that is less. */
const GROWTH_DAYS = 7;
/** Less would say little about a day. */
const MIN_GROWTH_MS = 3_600_000;

/** Bytes that the database has grown per day lately. Undefined on its first day. */
export async function growthPerDay(db: D1Database, bytes: number): Promise<number | undefined> {
  const sample = await first<{ bytes: number; age: number }>(
    db,
    sql`SELECT bytes, ${NOW} - at AS age FROM storage_samples
      WHERE day >= ${TODAY} - ${GROWTH_DAYS} ORDER BY day LIMIT 1`,
  );
  if (sample === undefined || sample.age < MIN_GROWTH_MS) return undefined;
  return Math.round(((bytes - sample.bytes) * 86_400_000) / sample.age);
}
