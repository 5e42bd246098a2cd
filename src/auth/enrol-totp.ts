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
import {
  all,
  expr,
  type Expr,
  first,
  scalar,
  select,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import { toWireTimeOrNull } from "../platform/time.ts";
import { type Alongside, detailed, recordOf } from "../audit/audit.ts";
import { holdMsOf, startHold, cancelWaiting } from "./hold.ts";
import { commitOwnChange } from "./own-change.ts";
import { codeCounts } from "./second-factor.ts";
import { openSecret, type Sealed, sealSecret } from "./secret-box.ts";
import { codeMark } from "../audit/event-details.ts";
import { stepUp, type StepUpRequest } from "./step-up.ts";
import {
  hashOfRecoveryCode,
  newRecoveryCodes,
  newTotpSecret,
  otpauthUri,
  stepOfCode,
} from "./totp.ts";
import { bindingOfTotp, CODE_INVALID, secretAt, validSecret } from "./totp-secret.ts";

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
  const boundTo = bindingOfTotp({ userId, status: "pending" });
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
  const current = await readCurrent(db, userId);
  const afterMs = current === undefined || pending.recovered === 1 ? 0 : holdMsOf(settings);
  const box = await sealSecret(
    settings.MASTER_KEYS,
    pending.secret,
    bindingOfTotp({ userId, status: "confirmed" }),
  );
  const codes = newRecoveryCodes();
  const made = { userId, box, step, codes };
  const marks = codes.map((code) => codeMark(hashOfRecoveryCode(userId, code)));
  const about = { ip: clientIp, subjectId: userId };
  const enabled = recordOf(actor, "totp_enabled", about);
  const applied = await commitOwnChange(db, actor, {
    record:
      current === undefined || afterMs === 0
        ? detailed(settings, enabled, { codes: marks })
        : detailed(settings, recordOf(actor, "totp_replacement_requested", about), {
            codes: [...current.codes, ...marks],
            since: current.since,
            afterMs,
          }),
    when: (at) => expr`EXISTS (SELECT 1 ${validSecret({ userId, status: "pending" }, at)}
        AND secret_sealed = ${pending.sealed})
      AND (SELECT ${secretAt(at).sealed} ${validSecret({ userId }, at)})
        IS ${current?.sealed ?? null}`,
    statements: (when) =>
      afterMs > 0
        ? replaceLater(made, { ...when, from: expr`${when.at} + ${afterMs}` })
        : [
            ...(current === undefined ? [] : startHold(settings, { ...enabled, userId }, when)),
            ...replaceNow(made, when),
          ],
    alongside,
  });
  if (!applied) throw new Problem(CODE_INVALID);
  const nextFrom = expr`SELECT next_from ${validSecret({ userId }, NOW)}`;
  const activeFrom = afterMs === 0 ? null : await scalar<number | null>(db, nextFrom);
  return { recovery_codes: codes, active_from: toWireTimeOrNull(activeFrom) };
}

async function readPending(db: D1Database, { MASTER_KEYS }: Config, userId: string) {
  const owner = { userId, status: "pending" } as const;
  const row = await first<Sealed & { recovered: number }>(
    db,
    sql`SELECT secret_sealed AS sealed, master_key_id AS masterKeyId, recovered
      ${validSecret(owner, NOW)}`,
  );
  return row && { ...row, secret: await openSecret(MASTER_KEYS, row, bindingOfTotp(owner)) };
}

/** The secret that counts, and the marks of its recovery codes. Undefined: TOTP is off. */
async function readCurrent(db: D1Database, userId: string) {
  const { sealed, since } = secretAt(NOW);
  const row = await first<{ sealed: string; since: number }>(
    db,
    sql`SELECT ${select({ sealed, since })} ${validSecret({ userId }, NOW)}`,
  );
  const codes = await all<{ hash: string }>(
    db,
    sql`SELECT hex(code_hash) AS hash FROM recovery_codes
      WHERE user_id = ${uuid(userId)} AND ${codeCounts(NOW)}`,
  );
  return row && { ...row, codes: codes.map(({ hash }) => codeMark(hash)) };
}

type NewSecret = {
  readonly userId: string;
  readonly box: Sealed;
  /** The step of the code that confirmed it. */
  readonly step: number;
  readonly codes: readonly string[];
};

/** The earlier secret and its recovery codes end. */
function replaceNow({ userId, box, step, codes }: NewSecret, { at, applied }: When): Sql[] {
  const mine = sql`user_id = ${uuid(userId)} AND ${applied}`;
  return [
    sql`DELETE FROM totp_secrets WHERE ${mine}`,
    sql`INSERT INTO totp_secrets (user_id, status, secret_sealed, master_key_id, last_step,
        wrong_codes, created_at, ends_at)
      SELECT ${uuid(userId)}, 'confirmed', ${box.sealed}, ${box.masterKeyId}, ${step}, 0, ${at}, NULL
      WHERE ${applied}`,
    sql`DELETE FROM recovery_codes WHERE ${mine}`,
    insertCodes({ userId, codes, from: null }, applied),
  ];
}

/** The earlier secret and its recovery codes count until `from`. What else waits is cancelled. */
function replaceLater(
  { userId, box, step, codes }: NewSecret,
  { at, from, applied }: When & { readonly from: Expr },
): Sql[] {
  const mine = sql`user_id = ${uuid(userId)} AND ${applied}`;
  const present = secretAt(at);
  return [
    ...cancelWaiting(userId, { at, applied }),
    sql`UPDATE totp_secrets SET secret_sealed = ${present.sealed},
        master_key_id = ${present.masterKeyId}, created_at = ${present.since},
        next_sealed = ${box.sealed}, next_master_key_id = ${box.masterKeyId}, next_from = ${from},
        last_step = max(last_step, ${step})
      WHERE ${mine} AND status = 'confirmed'`,
    sql`DELETE FROM recovery_codes WHERE ${mine} AND ends_at <= ${at}`,
    sql`UPDATE recovery_codes SET ends_at = ${from} WHERE ${mine}`,
    insertCodes({ userId, codes, from }, applied),
  ];
}

function insertCodes(
  { userId, codes, from }: { userId: string; codes: readonly string[]; from: Expr | null },
  when: Sql,
): Sql {
  const hashes = JSON.stringify(codes.map((code) => hashOfRecoveryCode(userId, code)));
  return sql`INSERT INTO recovery_codes (user_id, code_hash, active_from)
    SELECT ${uuid(userId)}, unhex(value), ${from} FROM json_each(${hashes}) WHERE ${when}`;
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
