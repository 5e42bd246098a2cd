/**
 * Limits failed logins. Attempts are counted in D1, which all isolates share. An attempt counts as
 * failed before its password is verified, so that parallel guesses all count.
 *
 * Guesses from other networks must not lock the owner out. When an email address has too many
 * failures in total, each network keeps a small limit of its own.
 */
import { createHash } from "node:crypto";
import { NOW } from "../platform/commit.ts";
import { Problem } from "../platform/problem.ts";
import { all, expr, first, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { networkOf } from "../http/ip-range.ts";

export const LOGIN_LIMITS = {
  windowMs: 15 * 60_000,
  /** Failures from one network on one email address. */
  perEmailAndNetwork: 10,
  /**
   * Failures from all networks on one email address. Then each network is limited to `underAttack`.
   */
  perEmail: 100,
  underAttack: 2,
  /** Failures from one network on all email addresses. */
  perNetwork: 100,
} as const;

export type Attempt = { readonly attemptId: string };

/** Counts an attempt. Throws `login_throttled` with the time until the oldest failure expires. */
export async function beginAttempt(
  db: D1Database,
  email: string,
  clientIp: string | undefined,
): Promise<Attempt> {
  const attemptId = uuidv7();
  const network = networkOf(clientIp);
  const emailHash = sql`unhex(${createHash("sha256").update(email).digest("hex")})`;
  const failed = (where: Sql) =>
    expr`SELECT count(*) FROM login_attempts
      WHERE ${where} AND at > ${NOW} - ${LOGIN_LIMITS.windowMs} AND succeeded = 0`;
  const ofNetwork = failed(sql`network = ${network}`);
  const ofEmail = failed(sql`email_hash = ${emailHash}`);
  const ofBoth = failed(sql`email_hash = ${emailHash} AND network = ${network}`);
  const { perNetwork, perEmail, perEmailAndNetwork, underAttack } = LOGIN_LIMITS;
  const counted = await first(
    db,
    sql`INSERT INTO login_attempts (attempt_id, email_hash, network, at, succeeded)
      SELECT ${uuid(attemptId)}, ${emailHash}, ${network}, ${NOW}, 0
      WHERE ${ofNetwork} < ${perNetwork}
        AND ${ofBoth} < iif(${ofEmail} < ${perEmail}, ${perEmailAndNetwork}, ${underAttack})
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
    detail: `Too many failed logins. Try again in ${retryAfterSecs} seconds.`,
    retryAfterSecs,
  });
}

/** Clears the failures from this network on this email address, because the password was right. */
export function attemptSucceeded(attempt: Attempt): Sql {
  return sql`UPDATE login_attempts SET succeeded = 1 WHERE (email_hash, network) IN
    (SELECT email_hash, network FROM login_attempts WHERE attempt_id = ${uuid(attempt.attemptId)})`;
}

/** Cron task: deletes attempts that no limit counts any more. */
export async function trimLoginAttempts(db: D1Database): Promise<void> {
  await all(db, sql`DELETE FROM login_attempts WHERE at < ${NOW} - ${4 * LOGIN_LIMITS.windowMs}`);
}
