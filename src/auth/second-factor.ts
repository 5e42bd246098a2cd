/**
 * Verifies one-time codes and recovery codes. A code is valid once: one conditional write uses it.
 *
 * Every code of a device is counted as wrong before it is verified, so that parallel guesses count.
 * After ten wrong ones of a user, codes count only from networks that logged the user in within 30
 * days. A recovery code has 80 bits, so nobody guesses it: no limit holds it up, and an owner in a
 * new network gets in while a thief with the password tries codes.
 */
import { networkOf } from "../http/ip-range.ts";
import { commitOrThrow, newGroup, NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { Problem } from "../platform/problem.ts";
import {
  all,
  blob,
  type Expr,
  expr,
  first,
  scalar,
  select,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { type AuditActor, commitAudited, recordBy } from "../audit/audit.ts";
import {
  CODE_INVALID,
  CODE_REQUIRED,
  openTotp,
  type SealedTotp,
  secretAt,
  validSecret,
} from "./totp-secret.ts";
import { KNOWN_NETWORK_MS } from "./login-throttle.ts";
import type { Secret } from "./mark.ts";
import { openOrAlert } from "./secret-box.ts";
import { hashOfRecoveryCode, stepOfCode } from "./totp.ts";

export const CODE_LIMITS = {
  windowMs: 3_600_000,
  /** Wrong codes of a user, after which only known networks may try. */
  perUser: 10,
  /** Wrong codes of a user from one network, known or not. */
  perNetwork: 10,
} as const;

export const SECOND_FACTOR_PROBLEMS = ["totp_required", "totp_invalid", "login_throttled"] as const;

/** A recovery code is accepted only where its field is. */
export type GivenCodes = {
  readonly totp_code?: string | undefined;
  readonly recovery_code?: string | undefined;
};

type Check = {
  readonly userId: string;
  readonly clientIp: string | undefined;
  readonly codes: GivenCodes;
  /** The sealed secret if it was read with the password, or null if TOTP is off. */
  readonly totp?: SealedTotp | null;
  /** Who uses a recovery code, for its audit event. */
  readonly actor: AuditActor;
};

/**
 * Verifies and uses a code of the user. Returns the sealed secret of the code, or null if TOTP is
 * off. The caller's guard must contain that this is still so: `mayWrite` of a `checkedActor`, or
 * `totpUnchanged`. Throws `SECOND_FACTOR_PROBLEMS`.
 */
export async function checkSecondFactor(
  db: D1Database,
  settings: Pick<Config, "MASTER_KEYS"> & Secret,
  check: Check,
): Promise<string | null> {
  const { userId, codes } = check;
  const stored = sql`SELECT ${select(secretAt(NOW))} ${validSecret({ userId }, NOW)}`;
  const box = check.totp === undefined ? await first<SealedTotp>(db, stored) : check.totp;
  if (box === undefined || box === null) return null;
  if (codes.totp_code === undefined && codes.recovery_code === undefined)
    throw new Problem(CODE_REQUIRED);
  // A row that was edited or moved does not open. Then no code is valid.
  const { since } = box;
  const opened = openTotp(settings.MASTER_KEYS, box, { userId, status: "confirmed", since });
  const secret = await openOrAlert(db, opened, { what: "The TOTP secret of the user", id: userId });
  if (secret === undefined) throw new Problem(CODE_INVALID);
  const recovery = codes.recovery_code ?? "";
  const used =
    codes.totp_code === undefined
      ? await takeRecoveryCode(db, check, hashOfRecoveryCode(settings, { userId, since }, recovery))
      : await takeCode(db, { ...check, secret, sealed: box.sealed }, codes.totp_code);
  if (!used) throw new Problem(CODE_INVALID);
  return box.sealed;
}

/** Counts a code as wrong, until it was right. Throws `login_throttled`. */
async function countCode(
  db: D1Database,
  { userId, clientIp }: Pick<Check, "userId" | "clientIp">,
): Promise<string> {
  const attempt = uuidv7();
  const network = networkOf(clientIp);
  const recent = sql`FROM totp_attempts WHERE user_id = ${uuid(userId)}
    AND at > ${NOW} - ${CODE_LIMITS.windowMs}`;
  const own = sql`${recent} AND network = ${network}`;
  const reached = (from: Sql, limit: number): Expr => expr`(SELECT count(*) ${from}) >= ${limit}`;
  const known = expr`EXISTS (SELECT 1 FROM login_networks WHERE user_id = ${uuid(userId)}
    AND network = ${network} AND at > ${NOW} - ${KNOWN_NETWORK_MS})`;
  const counted = await all(
    db,
    sql`INSERT INTO totp_attempts (attempt_id, user_id, network, at)
      SELECT ${uuid(attempt)}, ${uuid(userId)}, ${network}, ${NOW}
      WHERE NOT ${reached(own, CODE_LIMITS.perNetwork)}
        AND (NOT ${reached(recent, CODE_LIMITS.perUser)} OR ${known})
      RETURNING 1`,
  );
  if (counted.length === 1) return attempt;
  const wait = expr`SELECT min(at) + ${CODE_LIMITS.windowMs} - ${NOW} ${recent}`;
  const waitMs = (await scalar<number | null>(db, wait)) ?? 1_000;
  const retryAfterSecs = Math.max(1, Math.ceil(waitMs / 1_000));
  throw new Problem({
    code: "login_throttled",
    detail: `Too many wrong codes. Try again in ${retryAfterSecs} seconds.`,
    retryAfterSecs,
  });
}

/**
 * Uses the step of a code. False if the code is wrong, or its step is not above the last one. A
 * right code that was used before does not count as wrong: a client that retries guesses nothing.
 */
async function takeCode(
  db: D1Database,
  { secret, sealed, userId, clientIp }: Check & { secret: string; sealed: string },
  code: string,
): Promise<boolean> {
  const attempt = await countCode(db, { userId, clientIp });
  const step = stepOfCode(secret, code, Date.now());
  if (step === undefined) return false;
  const unused = sql`user_id = ${uuid(userId)} AND status = 'confirmed'
    AND ${secretAt(NOW).sealed} = ${sealed} AND last_step < ${step}`;
  const group = newGroup();
  const rows = await commitOrThrow(db, group, [
    sql`DELETE FROM totp_attempts WHERE attempt_id = ${uuid(attempt)}`,
    sql`UPDATE totp_secrets SET last_step = ${step} WHERE ${unused} RETURNING 1`,
  ]);
  // If D1's response was lost, the step may be used. The caller needs the next code then.
  return rows?.[1]?.length === 1;
}

/** Deletes the recovery code, with an audit event. False if there is no such code. */
async function takeRecoveryCode(
  db: D1Database,
  { userId, clientIp, actor }: Check,
  hash: string,
): Promise<boolean> {
  const mine = sql`user_id = ${uuid(userId)} AND code_hash = ${blob(hash)}`;
  return commitAudited(db, {
    record: recordBy(actor, "recovery_code_used", { userId, ip: clientIp }),
    when: () => sql`EXISTS (SELECT 1 FROM recovery_codes WHERE ${mine})`,
    statements: (_, applied) => [sql`DELETE FROM recovery_codes WHERE ${mine} AND ${applied}`],
  });
}
