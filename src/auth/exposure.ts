/**
 * Exposure: what a user or a credential gives in trades (contract.md section 8). A buyer gives
 * USDC and their own fee. A seller's tokens count as 1 USDC each, the most they can be worth.
 * Tokens and USDC have the same native units, so it is the amount that a trade sets aside.
 *
 * Sums are REAL. They are exact up to 2^53, which no limit exceeds, and cannot overflow, although
 * anyone may hold 2^62 units of a worthless token.
 */
import { NOW } from "../platform/commit.ts";
import { all, type Expr, expr, raw, type Sql, sql, uuid } from "../platform/sql.ts";
import { trimUntilDone } from "../platform/trim.ts";

const HOUR_MS = raw("3600000");
/** The last day is the current UTC hour and the 23 before it. */
const DAY_HOURS = 24;

const hourOf = (at: Expr): Expr => expr`${at} / ${HOUR_MS}`;

/** Native units that the subject, an API key or a user, gave in matches of the last day. */
function tradedLastDay(subject: Expr, at: Expr): Expr {
  return expr`SELECT total(usdc) FROM traded_hours
    WHERE subject = ${subject} AND hour > ${hourOf(at)} - ${raw(String(DAY_HOURS))}`;
}

/** Native units that open quotes have set aside: of one credential, or of all of the user's. */
function inOpenQuotes(userId: string, at: Expr, credential: Expr | undefined): Expr {
  const own = credential === undefined ? sql`` : sql` AND credential = ${credential}`;
  return expr`SELECT total(reserve) FROM quotes INDEXED BY quotes_open_maker
    WHERE maker_id = ${uuid(userId)} AND status = 'open' AND expires_at > ${at}${own}`;
}

/** What counts against the limits of a key: its matches of the last day and its open quotes. */
export function usedByKey(key: { userId: string; apiKeyId: string }, at: Expr): Expr {
  const credential = uuid(key.apiKeyId);
  return expr`${tradedLastDay(credential, at)} + ${inOpenQuotes(key.userId, at, credential)}`;
}

/** A sum as decimal text, at most 2^62, so that it can be shown as a U256. */
export function sumText(sum: Expr): Expr {
  return expr`CAST(CAST(min(${sum}, 4611686018427387904) AS INTEGER) AS TEXT)`;
}

/**
 * Counts what each side of a match gave. `sides` selects `subject` and `usdc`. A total stops at
 * 2^62, because an overflow would reject the match.
 */
export function countTraded(sides: Sql, at: Expr): Sql {
  return sql`INSERT INTO traded_hours (subject, hour, usdc)
    SELECT s.subject, ${hourOf(at)}, s.usdc FROM (${sides}) s WHERE true
    ON CONFLICT (subject, hour) DO UPDATE
      SET usdc = min(usdc + excluded.usdc, 4611686018427387904)`;
}

/** What a key with a limit for a day has used, for whoami. */
export async function readUsedByKey(
  db: D1Database,
  key: { userId: string; apiKeyId: string },
): Promise<bigint> {
  const [row] = await all<{ used: string }>(
    db,
    sql`SELECT ${sumText(usedByKey(key, NOW))} AS used`,
  );
  return BigInt(row?.used ?? 0);
}

/** Cron task: deletes hours that are no longer part of the last day. */
export async function trimTradedHours(db: D1Database): Promise<void> {
  await trimUntilDone(
    db,
    (rows) => sql`DELETE FROM traded_hours WHERE (subject, hour) IN (
      SELECT subject, hour FROM traded_hours
      WHERE hour <= ${hourOf(NOW)} - ${raw(String(DAY_HOURS))} ORDER BY hour LIMIT ${rows})
      RETURNING 1`,
  );
}
