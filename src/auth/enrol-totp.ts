/** Turns TOTP on, or moves it to another device. The new secret counts once a code confirms it. */
import type { SessionActor } from "../platform/actor.ts";
import { NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { Problem, problem } from "../platform/problem.ts";
import { all, blob, type Sql, sql, uuid } from "../platform/sql.ts";
import { commitAudited, recordOf } from "./audit.ts";
import { forgetCredentials } from "./credential-cache.ts";
import { actorRejection, mayWrite, throwNotApplied } from "./may-write.ts";
import { invalidCode } from "./second-factor.ts";
import { codeMark, detailsOf } from "./rights.ts";
import { stepUp, type StepUpRequest } from "./step-up.ts";
import {
  hashOfRecoveryCode,
  newRecoveryCodes,
  newTotpSecret,
  otpauthUri,
  stepOfCode,
} from "./totp.ts";
import { openTotpSecret, readTotpBox, sealTotpSecret, validSecret } from "./totp-secret.ts";

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
  const secret = newTotpSecret();
  const box = await sealTotpSecret(settings.MASTER_KEYS, secret, { userId, status: "pending" });
  const applied = await commitAudited(db, {
    record: recordOf(actor, "totp_requested", { ip: request.clientIp, subjectId: userId }),
    when: ({ at }) => mayWrite(actor, at),
    statements: ({ at }, written) => [
      sql`DELETE FROM totp_secrets
        WHERE user_id = ${uuid(userId)} AND status = 'pending' AND ${written}`,
      sql`INSERT INTO totp_secrets (user_id, status, secret_sealed, master_key_id, last_step,
          wrong_codes, created_at, ends_at)
        SELECT ${uuid(userId)}, 'pending', ${box.sealed}, ${box.masterKeyId}, 0, 0, ${at},
          ${at} + ${ENROLMENT_MS}
        WHERE ${written}`,
    ],
  });
  if (!applied) await throwNotApplied(db, actor);
  return { secret, otpauth_uri: otpauthUri(secret, email) };
}

/**
 * Confirms the new secret with one of its codes. The earlier secret and recovery codes end. Returns
 * the new recovery codes. Throws `totp_invalid`.
 */
export async function confirmTotp(
  db: D1Database,
  settings: Config,
  request: { actor: SessionActor; code: string; clientIp: string | undefined },
): Promise<{ recovery_codes: string[] }> {
  const { actor, clientIp } = request;
  const { userId } = actor;
  const pending = { userId, status: "pending" } as const;
  await countEnrolmentCode(db, userId);
  const box = await readTotpBox(db, pending);
  const stored = box && (await openTotpSecret(settings.MASTER_KEYS, box, pending));
  const step = stored && stepOfCode(stored.secret, request.code, Date.now());
  if (stored === undefined || step === undefined) throw invalidCode();
  const confirmed = await sealTotpSecret(settings.MASTER_KEYS, stored.secret, {
    userId,
    status: "confirmed",
  });
  const codes = newRecoveryCodes();
  const mine = sql`user_id = ${uuid(userId)}`;
  const applied = await commitAudited(db, {
    record: {
      ...recordOf(actor, "totp_enabled", { ip: clientIp, subjectId: userId }),
      details: detailsOf(settings, "totp_enabled", {
        codes: codes.map((code) => codeMark(hashOfRecoveryCode(userId, code))),
      }),
    },
    when: ({ at }) => sql`${mayWrite(actor, at)} AND EXISTS (
      SELECT 1 ${validSecret(pending, at)} AND secret_sealed = ${stored.sealed})`,
    statements: ({ at }, written) => [
      sql`DELETE FROM totp_secrets WHERE ${mine} AND ${written}`,
      sql`INSERT INTO totp_secrets (user_id, status, secret_sealed, master_key_id, last_step,
          wrong_codes, created_at, ends_at)
        SELECT ${uuid(userId)}, 'confirmed', ${confirmed.sealed}, ${confirmed.masterKeyId}, ${step}, 0, ${at},
          NULL
        WHERE ${written}`,
      sql`DELETE FROM recovery_codes WHERE ${mine} AND ${written}`,
      ...codes.map((code) => insertCode({ userId, code }, written)),
    ],
  });
  forgetCredentials({ userId, apiKeyIds: [] });
  if (!applied) {
    const rejection = await actorRejection(db, actor);
    throw rejection === undefined ? invalidCode() : new Problem(rejection);
  }
  return { recovery_codes: codes };
}

function insertCode({ userId, code }: { userId: string; code: string }, when: Sql): Sql {
  return sql`INSERT INTO recovery_codes (user_id, code_hash)
    SELECT ${uuid(userId)}, ${blob(hashOfRecoveryCode(userId, code))} WHERE ${when}`;
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
