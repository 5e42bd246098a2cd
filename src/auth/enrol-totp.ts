/**
 * Turns TOTP on, or moves it to another device. A first secret counts once a code confirms it.
 * Another one counts AUTH_SECURITY_DELAY_SECS later, so that its owner can cancel what a thief
 * requested with one code, or at once if a recovery code was used. No job applies it: `secretAt`
 * compares the instant. A first secret starts no security hold, because it only strengthens the
 * account: a thief who enrols locks out new logins of the owner, but the owner's sessions and keys
 * can freeze, and a secret that young does not end the freeze.
 */
import type { SessionActor } from "../platform/actor.ts";
import { NOW, type When } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { Problem, problem } from "../platform/problem.ts";
import { all, expr, first, scalar, select, type Sql, sql, uuid } from "../platform/sql.ts";
import { toWireTimeOrNull } from "../platform/time.ts";
import { type Alongside, recordOf } from "../audit/audit.ts";
import { holdMsOf, startHold, cancelWaiting } from "./hold.ts";
import { commitOwnChange } from "./own-change.ts";
import { type Sealed, sealSecret } from "./secret-box.ts";
import { stepUp, type StepUpRequest } from "./step-up.ts";
import {
  hashOfRecoveryCode,
  newRecoveryCodes,
  newTotpSecret,
  otpauthUri,
  stepOfCode,
} from "./totp.ts";
import {
  bindingOfTotp,
  CODE_INVALID,
  codeCounts,
  openTotp,
  type SealedTotp,
  secretAt,
  validSecret,
} from "./totp-secret.ts";

export const ENROLMENT_MS = 10 * 60_000;
/** Codes of one enrolment that may be wrong. A stolen session could guess the owner's otherwise. */
export const MAX_ENROLMENT_CODES = 10;

/** Makes a secret that awaits its confirmation. It replaces an earlier unconfirmed one. */
export async function startTotp(
  db: D1Database,
  settings: Config,
  request: StepUpRequest,
): Promise<{ secret: string; otpauth_uri: string }> {
  const { actor, email } = await stepUp(db, settings, request, { duringHold: true });
  const { userId } = actor;
  const recovered = request.fields.recovery_code === undefined ? 0 : 1;
  const secret = newTotpSecret();
  const boundTo = bindingOfTotp({ userId, status: "pending", recovered });
  const box = await sealSecret(settings.MASTER_KEYS, secret, boundTo);
  await commitOwnChange(db, actor, {
    record: recordOf(actor, "totp_requested", { ip: request.clientIp, subjectId: userId }),
    statements: ({ at, applied }) => [
      sql`DELETE FROM totp_secrets
        WHERE user_id = ${uuid(userId)} AND status = 'pending' AND ${applied}`,
      sql`INSERT INTO totp_secrets (user_id, status, secret_sealed, master_key_id, last_step,
          wrong_codes, created_at, ends_at, recovered)
        SELECT ${uuid(userId)}, 'pending', ${box.sealed}, ${box.masterKeyId}, 0, 0, ${at},
          ${at} + ${ENROLMENT_MS}, ${recovered}
        WHERE ${applied}`,
    ],
  });
  return { secret, otpauth_uri: otpauthUri(secret, email) };
}

/** `active_from`: from when the codes and the secret count. Null: now. Throws `totp_invalid`. */
export async function confirmTotp(
  db: D1Database,
  settings: Config,
  request: { actor: SessionActor; code: string; clientIp: string | undefined },
  alongside?: Alongside,
): Promise<{ recovery_codes: string[]; active_from: string | null }> {
  const { actor, clientIp } = request;
  const { userId } = actor;
  await countEnrolmentCode(db, userId);
  const pending = await readPending(db, settings, userId);
  const step = pending && stepOfCode(pending.secret, request.code, Date.now());
  if (pending === undefined || step === undefined) throw new Problem(CODE_INVALID);
  const { now, current } = await readCurrent(db, userId);
  const waits = current !== undefined && pending.recovered !== 1 && holdMsOf(settings) > 0;
  const since = waits ? now + holdMsOf(settings) : now;
  const boundTo = bindingOfTotp({ userId, status: "confirmed", since });
  const box = await sealSecret(settings.MASTER_KEYS, pending.secret, boundTo);
  const codes = newRecoveryCodes();
  const hashes = codes.map((code) => hashOfRecoveryCode(settings, { userId, since }, code));
  const made = { userId, box, step, since, hashes };
  const about = { ip: clientIp, subjectId: userId };
  const enabled = recordOf(actor, "totp_enabled", about);
  const applied = await commitOwnChange(db, actor, {
    record: waits ? recordOf(actor, "totp_replacement_requested", about) : enabled,
    when: (at) => expr`EXISTS (SELECT 1 ${validSecret({ userId, status: "pending" }, at)}
        AND secret_sealed = ${pending.sealed})
      AND (SELECT ${secretAt(at).sealed} ${validSecret({ userId }, at)})
        IS ${current?.sealed ?? null}`,
    statements: (when) =>
      waits
        ? replaceLater(made, when)
        : [
            ...(current === undefined ? [] : startHold(settings, { ...enabled, userId }, when)),
            ...replaceNow(made, when),
          ],
    alongside,
  });
  if (!applied) throw new Problem(CODE_INVALID);
  return { recovery_codes: codes, active_from: toWireTimeOrNull(waits ? since : null) };
}

async function readPending(db: D1Database, { MASTER_KEYS }: Config, userId: string) {
  const owner = { userId, status: "pending" } as const;
  const row = await first<Sealed & { recovered: number }>(
    db,
    sql`SELECT secret_sealed AS sealed, master_key_id AS masterKeyId, recovered
      ${validSecret(owner, NOW)}`,
  );
  if (row === undefined) return undefined;
  const { recovered } = row;
  return { ...row, secret: await openTotp(MASTER_KEYS, row, { ...owner, recovered }) };
}

/** D1's clock and the secret that counts. Undefined: TOTP is off. */
async function readCurrent(db: D1Database, userId: string) {
  const secret = sql`SELECT ${select(secretAt(NOW))} ${validSecret({ userId }, NOW)}`;
  const [now, current] = await Promise.all([
    scalar<number>(db, NOW),
    first<SealedTotp>(db, secret),
  ]);
  return { now, current };
}

type NewSecret = {
  readonly userId: string;
  readonly box: Sealed;
  /** The step of the code that confirmed it. */
  readonly step: number;
  /** From when it counts, with its recovery codes. */
  readonly since: number;
  readonly hashes: readonly string[];
};

/** The earlier secret and its recovery codes end. */
function replaceNow(made: NewSecret, { applied }: When): Sql[] {
  const { userId, box, step, since } = made;
  const mine = sql`user_id = ${uuid(userId)} AND ${applied}`;
  return [
    sql`DELETE FROM totp_secrets WHERE ${mine}`,
    sql`INSERT INTO totp_secrets (user_id, status, secret_sealed, master_key_id, last_step,
        wrong_codes, created_at, ends_at)
      SELECT ${uuid(userId)}, 'confirmed', ${box.sealed}, ${box.masterKeyId}, ${step}, 0,
        ${since}, NULL
      WHERE ${applied}`,
    sql`DELETE FROM recovery_codes WHERE ${mine}`,
    insertCodes(made, applied),
  ];
}

/** The earlier secret and its recovery codes count until then. What else waits is cancelled. */
function replaceLater(made: NewSecret, { at, applied }: When): Sql[] {
  const { userId, box, step, since } = made;
  const mine = sql`user_id = ${uuid(userId)} AND ${applied}`;
  const present = secretAt(at);
  return [
    ...cancelWaiting(userId, { at, applied }),
    sql`DELETE FROM recovery_codes WHERE ${mine} AND NOT ${codeCounts(uuid(userId), at)}`,
    sql`UPDATE totp_secrets SET secret_sealed = ${present.sealed},
        master_key_id = ${present.masterKeyId}, created_at = ${present.since},
        next_sealed = ${box.sealed}, next_master_key_id = ${box.masterKeyId}, next_from = ${since},
        last_step = max(last_step, ${step})
      WHERE ${mine} AND status = 'confirmed'`,
    insertCodes(made, applied),
  ];
}

function insertCodes({ userId, hashes, since }: NewSecret, when: Sql): Sql {
  return sql`INSERT INTO recovery_codes (user_id, code_hash, active_from)
    SELECT ${uuid(userId)}, unhex(value), ${since}
    FROM json_each(${JSON.stringify(hashes)}) WHERE ${when}`;
}

/** Counts a code before it is verified. Throws `totp_invalid` if no secret awaits one. */
async function countEnrolmentCode(db: D1Database, userId: string): Promise<void> {
  const counted = await all(
    db,
    sql`UPDATE totp_secrets SET wrong_codes = wrong_codes + 1
      WHERE user_id = ${uuid(userId)} AND status = 'pending' AND ends_at > ${NOW}
        AND wrong_codes < ${MAX_ENROLMENT_CODES}
      RETURNING 1`,
  );
  if (counted.length === 0)
    throw problem("totp_invalid", "No secret awaits its confirmation. POST /auth/totp makes one.");
}
