/**
 * Limits of failed logins, counted in D1, which every isolate shares. An attempt is counted as failed before its
 * password is looked at, so a thousand parallel guesses count as a thousand.
 *
 * A stranger must not lock the owner out: guesses from elsewhere never close the door, they only narrow it. While an
 * email is under attack, each network keeps a small allowance of its own.
 */
import { createHash } from "node:crypto";
import { NOW } from "../platform/commit.ts";
import { Problem } from "../platform/problem.ts";
import { all, first, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { networkOf } from "../http/ip-range.ts";

export const LOGIN_LIMITS = {
  windowMs: 15 * 60_000,
  /** Failures of one network on one email. */
  perEmailAndNetwork: 10,
  /** Failures on one email from everywhere, after which each network has only `underAttack` left. */
  perEmail: 100,
  underAttack: 2,
  /** Failures of one network on all emails. */
  perNetwork: 100,
} as const;

export type Attempt = { readonly attemptId: string };

/** Counts an attempt, or throws `login_throttled` with the time until the oldest counted failure lapses. */
export async function beginAttempt(
  db: D1Database,
  email: string,
  clientIp: string | undefined,
): Promise<Attempt> {
  const attemptId = uuidv7();
  const network = networkOf(clientIp);
  const emailHash = sql`unhex(${createHash("sha256").update(email).digest("hex")})`;
  const failed = (where: Sql) =>
    sql`(SELECT count(*) FROM login_attempts WHERE ${where} AND at > ${NOW} - ${LOGIN_LIMITS.windowMs} AND succeeded = 0)`;
  const both = failed(sql`email_hash = ${emailHash} AND network = ${network}`);
  const counted = await first(
    db,
    sql`INSERT INTO login_attempts (attempt_id, email_hash, network, at, succeeded)
      SELECT ${uuid(attemptId)}, ${emailHash}, ${network}, ${NOW}, 0
      WHERE ${failed(sql`network = ${network}`)} < ${LOGIN_LIMITS.perNetwork}
        AND ${both} < iif(${failed(sql`email_hash = ${emailHash}`)} < ${LOGIN_LIMITS.perEmail}, ${LOGIN_LIMITS.perEmailAndNetwork}, ${LOGIN_LIMITS.underAttack})
      RETURNING 1 AS counted`,
  );
  if (counted !== undefined) return { attemptId };
  const oldest = await first<{ waitMs: number | null }>(
    db,
    sql`SELECT min(at) + ${LOGIN_LIMITS.windowMs} - ${NOW} AS waitMs FROM login_attempts
      WHERE network = ${network} AND at > ${NOW} - ${LOGIN_LIMITS.windowMs} AND succeeded = 0`,
  );
  const retryAfterSecs = Math.max(1, Math.ceil((oldest?.waitMs ?? LOGIN_LIMITS.windowMs) / 1_000));
  throw new Problem({
    code: "login_throttled",
    detail: `Too many failed logins. Try again in ${retryAfterSecs} s.`,
    retryAfterSecs,
  });
}

/** The right password clears what this network failed on this email: an owner who mistyped starts afresh. */
export function attemptSucceeded(attempt: Attempt): Sql {
  return sql`UPDATE login_attempts SET succeeded = 1 WHERE (email_hash, network) IN
    (SELECT email_hash, network FROM login_attempts WHERE attempt_id = ${uuid(attempt.attemptId)})`;
}

/** Cron: rows that no window reaches any more. */
export async function trimLoginAttempts(db: D1Database): Promise<void> {
  await all(db, sql`DELETE FROM login_attempts WHERE at < ${NOW} - ${4 * LOGIN_LIMITS.windowMs}`);
}
