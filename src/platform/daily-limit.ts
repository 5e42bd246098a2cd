/**
 * Limits per user and day on commands that leave rows behind, so that no user can fill the
 * database. The count is written in the batch of the command and checked in its guard.
 */
import { NOW } from "./commit.ts";
import type { Config } from "./config.ts";
import type { ProblemData } from "./problem.ts";
import { type Precondition, required } from "./preconditions.ts";
import { all, type Expr, expr, type Sql, sql, uuid } from "./sql.ts";
import { rowsOf, trimUntilDone } from "./trim.ts";

const DAY_MS = 86_400_000;
/** SQL: the day of an instant. D1 binds a number as REAL, which would not round down. */
const dayOf = (at: Expr): Expr => expr`${at} / ${BigInt(DAY_MS)}`;

/** What is counted, and the setting with its limit. */
const SETTING = {
  requests: "RFQ_DAILY_REQUESTS",
  tickets: "STREAM_DAILY_TICKETS",
  api_keys: "AUTH_DAILY_API_KEYS",
  deposit_addresses: "DEPOSIT_DAILY_ADDRESSES",
} as const;
type Kind = keyof typeof SETTING;

export type DailyUse = { readonly userId: string; readonly kind: Kind; readonly limit: number };

export function dailyUse<K extends Kind>(
  settings: Pick<Config, (typeof SETTING)[K]>,
  kind: K,
  userId: string,
): DailyUse {
  return { userId, kind, limit: settings[SETTING[kind]] };
}

/** Condition: the user has not reached the limit on the day of `at`. */
export function belowDailyLimit({ userId, kind, limit }: DailyUse, at: Expr): Expr {
  return expr`coalesce((SELECT count FROM daily_counts WHERE day = ${dayOf(at)}
    AND user_id = ${uuid(userId)} AND kind = ${kind}), 0) < ${limit}`;
}

/** Counts one more if `when` is true. It belongs to the batch of the command that it counts. */
export function countDaily({ userId, kind }: DailyUse, at: Expr, when: Sql): Sql {
  return sql`INSERT INTO daily_counts (day, user_id, kind, count)
    SELECT ${dayOf(at)}, ${uuid(userId)}, ${kind}, 1 WHERE ${when}
    ON CONFLICT (day, user_id, kind) DO UPDATE SET count = count + 1`;
}

export function dailyLimitProblem({ kind, limit }: DailyUse): ProblemData {
  return dailyLimitReached({
    limit: `${kind}_per_day`,
    maximum: limit,
    detail:
      `You have reached the limit of ${limit} ${kind.replace("_", " ")} per day (UTC). ` +
      "Try again tomorrow.",
    resetSecs: Math.ceil((DAY_MS - (Date.now() % DAY_MS)) / 1_000),
  });
}

/** `limit` is its name in GET /config. It is counted exactly, so the headers may state it. */
export function dailyLimitReached(reached: {
  limit: string;
  maximum: number;
  detail: string;
  resetSecs: number;
}): ProblemData {
  const { limit, maximum, detail, resetSecs } = reached;
  return {
    code: "daily_limit",
    detail,
    extensions: { limit, max_per_day: maximum },
    retryAfterSecs: resetSecs,
    headers: {
      "ratelimit-policy": `"${limit}";q=${maximum};w=${DAY_MS / 1_000}`,
      ratelimit: `"${limit}";r=0;t=${resetSecs}`,
    },
  };
}

export function dailyPrecondition(use: DailyUse, at: Expr): Precondition<unknown, never> {
  return required(belowDailyLimit(use, at), () => dailyLimitProblem(use));
}

/** The limits that an operator can begin again for a user, by their names in GET /config. */
export const DAILY_LIMITS = Object.keys(SETTING).map((kind) => `${kind}_per_day`);

/** Begins the count of this day again. Returns what it was. */
export async function beginAgain(db: D1Database, userId: string, limit: string): Promise<number> {
  const [row] = await all<{ count: number }>(
    db,
    sql`DELETE FROM daily_counts WHERE day = ${dayOf(NOW)} AND user_id = ${uuid(userId)}
      AND kind || '_per_day' = ${limit} RETURNING count`,
  );
  return row?.count ?? 0;
}

/** Cron task: deletes the counts of earlier days. */
export async function trimDailyCounts(db: D1Database): Promise<void> {
  await trimUntilDone(db, rowsOf("daily_counts", "rowid", sql`WHERE day < ${dayOf(NOW)}`));
}
