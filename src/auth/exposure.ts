/**
 * Exposure: what a user or a credential gives in trades (contract.md section 1). A buyer gives
 * USDC and their own fee. A seller's tokens count as 1 USDC each, the most they can be worth.
 * Tokens and USDC have the same native units, so it is the amount that a trade sets aside.
 *
 * Sums are REAL. They are exact up to 2^53, which no limit exceeds, and cannot overflow, although
 * anyone may hold 2^62 units of a worthless token.
 */
import { NOT_RETURNED } from "../assets/withdrawal-status.ts";
import { NOW } from "../platform/commit.ts";
import {
  type Expr,
  expr,
  literal,
  scalar,
  type Sql,
  sql,
  uuid,
  MAX_NATIVE,
} from "../platform/sql.ts";
import { rowsOf, trimUntilDone } from "../platform/trim.ts";

const HOUR_MS = literal(3_600_000);
/** The last day is the current UTC hour and the 23 before it. */
const DAY_HOURS = 24;

const hourOf = (at: Expr): Expr => expr`${at} / ${HOUR_MS}`;

/** When the last day began, in Unix milliseconds. */
function lastDayFrom(at: Expr): Expr {
  return expr`(${hourOf(at)} - ${literal(DAY_HOURS - 1)}) * ${HOUR_MS}`;
}

/** Whose trades count. */
type Subject = {
  readonly user: Expr;
  /** A quote that is about to be replaced does not count. NULL or absent: none is. */
  readonly replaces?: Expr;
};

/** Native units given in matches of the last day, and set aside by open quotes. */
function usedBy(
  { user, replaces }: Subject,
  at: Expr,
  { subject, own }: { subject: Expr; own: Sql },
): Expr {
  const others = replaces === undefined ? sql`` : sql` AND quote_id IS NOT ${replaces}`;
  return expr`SELECT total(u.usdc) FROM (
    SELECT usdc FROM traded_hours
    WHERE subject = ${subject} AND hour > ${hourOf(at)} - ${literal(DAY_HOURS)}
    UNION ALL
    SELECT reserve FROM quotes INDEXED BY quotes_open_maker
    WHERE maker_id = ${user} AND status = 'open' AND expires_at > ${at}${own}${others}) u`;
}

/** What counts against the limits of a key: its matches of the last day and its open quotes. */
export function usedByKey(key: Subject & { readonly key: Expr }, at: Expr): Expr {
  return usedBy(key, at, { subject: key.key, own: sql` AND credential = ${key.key}` });
}

/** The same of all credentials of a user, for the account policy. */
export function usedByUser(user: Subject, at: Expr): Expr {
  return usedBy(user, at, { subject: user.user, own: sql`` });
}

/** How long a withdrawal waits for approval. */
export const APPROVAL_MS = 86_400_000;

/**
 * Native units of the user's withdrawals of the last day, except failed and cancelled ones and the
 * one with the id `except`. One that was approved counts from its approval, like a new one.
 */
export function withdrawnLastDay(user: Expr, at: Expr, except?: Expr): Expr {
  const from = lastDayFrom(at);
  const others = except === undefined ? sql`` : sql` AND withdrawal_id <> ${except}`;
  // The first bound is for the index: an approval comes within `APPROVAL_MS`.
  return expr`SELECT total(amount) FROM withdrawals INDEXED BY withdrawals_user
    WHERE user_id = ${user} AND created_at >= ${from} - ${literal(APPROVAL_MS)}
      AND max(created_at, coalesce(approved_at, 0)) >= ${from}
      AND status NOT IN ('failed', 'cancelled')${others}`;
}

/** Native units of those of the last day that are to be paid and needed no approval. */
export function unapprovedLastDay(user: Expr, at: Expr): Expr {
  return expr`SELECT total(amount) FROM withdrawals INDEXED BY withdrawals_user
    WHERE user_id = ${user} AND created_at >= ${lastDayFrom(at)} AND approved_at IS NULL
      AND status ${NOT_RETURNED}`;
}

/** A sum as decimal text, at most 2^62, so that it can be shown as a U256. */
export function sumText(sum: Expr): Expr {
  return expr`CAST(CAST(min(${sum}, ${MAX_NATIVE}) AS INTEGER) AS TEXT)`;
}

/** Counts what each side (`subject`, `usdc`) gave, to 2^62: an overflow would reject the match. */
export function countTraded(sides: Sql, at: Expr): Sql {
  return sql`INSERT INTO traded_hours (subject, hour, usdc)
    SELECT s.subject, ${hourOf(at)}, s.usdc FROM (${sides}) s WHERE true
    ON CONFLICT (subject, hour) DO UPDATE
      SET usdc = min(usdc + excluded.usdc, ${MAX_NATIVE})`;
}

/** What a key with a limit for a day has used, for whoami. */
export async function readUsedByKey(
  db: D1Database,
  { userId, apiKeyId }: { userId: string; apiKeyId: string },
): Promise<bigint> {
  const used = usedByKey({ user: uuid(userId), key: uuid(apiKeyId) }, NOW);
  return BigInt(await scalar<string>(db, sumText(used)));
}

/** Cron task: deletes hours that are no longer part of the last day. */
export async function trimTradedHours(db: D1Database): Promise<void> {
  const past = sql`WHERE hour <= ${hourOf(NOW)} - ${literal(DAY_HOURS)} ORDER BY hour`;
  await trimUntilDone(db, rowsOf("traded_hours", "subject, hour", past));
}
