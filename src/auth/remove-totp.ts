/**
 * Turns TOTP off after AUTH_SECURITY_DELAY_SECS, so that its owner can cancel a removal that a
 * thief requested. No job applies it: a secret is valid until its `ends_at`.
 */
import type { SessionActor } from "../platform/actor.ts";
import { NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { problem } from "../platform/problem.ts";
import { batch, expr, type Expr, first, holds, sql, uuid } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { rowsOf, trimUntilDone } from "../platform/trim.ts";
import { recordOf } from "../audit/audit.ts";
import { changedMeanwhile } from "./may-write.ts";
import { commitOwnChange } from "./own-change.ts";
import { CODE_LIMITS } from "./second-factor.ts";
import { holdMsOf, cancelWaitingTotp } from "./hold.ts";
import { stepUp, type StepUpRequest } from "./step-up.ts";
import { validSecret } from "./totp-secret.ts";

/** A removal that is already requested keeps its instant. Throws `totp_not_enabled`. */
export async function removeTotp(
  db: D1Database,
  settings: Config,
  request: StepUpRequest,
): Promise<{ removal_at: string }> {
  const { actor, secondFactor } = await stepUp(db, settings, request);
  const { userId } = actor;
  const { clientIp } = request;
  const afterMs = holdMsOf(settings);
  const record = recordOf(actor, "totp_removal_requested", { ip: clientIp, subjectId: userId });
  await commitOwnChange(db, actor, {
    record,
    when: (at) => expr`EXISTS (SELECT 1 ${validSecret({ userId }, at)} AND ends_at IS NULL)`,
    statements: ({ at, applied }) => [
      sql`UPDATE totp_secrets SET ends_at = ${at} + ${afterMs}
        WHERE user_id = ${uuid(userId)} AND status = 'confirmed' AND ${applied}`,
    ],
  });
  const row = await first<{ ends_at: number | null }>(
    db,
    sql`SELECT ends_at FROM totp_secrets
      WHERE user_id = ${uuid(userId)} AND status = 'confirmed'`,
  );
  if (secondFactor === "off" || row === undefined)
    throw problem("totp_not_enabled", "The account has no TOTP.");
  // A freeze was in the way, and has ended since.
  if (row.ends_at === null) throw changedMeanwhile();
  return { removal_at: toWireTime(row.ends_at) };
}

/** Cancels a removal and a replacement that have not taken effect. Idempotent. */
export async function cancelTotpRemoval(
  db: D1Database,
  { actor, clientIp }: { actor: SessionActor; clientIp: string | undefined },
): Promise<void> {
  const { userId } = actor;
  const waiting = (at: Expr) =>
    expr`EXISTS (SELECT 1 ${validSecret({ userId }, at)}
      AND (ends_at IS NOT NULL OR next_from > ${at}))`;
  const record = recordOf(actor, "totp_removal_cancelled", { ip: clientIp, subjectId: userId });
  const applied = await commitOwnChange(db, actor, {
    record,
    when: waiting,
    statements: (when) => cancelWaitingTotp(userId, when),
  });
  // A freeze was in the way, and has ended since.
  if (!applied && (await holds(db, waiting(NOW)))) throw changedMeanwhile();
}

/** Cron task: deletes secrets that have ended with their recovery codes, and old wrong codes. */
export async function trimTotp(db: D1Database): Promise<void> {
  // The limit of 100 rows suffices, because few secrets end in one minute.
  const ended = sql`SELECT user_id, status FROM totp_secrets
    WHERE ends_at < ${NOW} - ${CODE_LIMITS.windowMs} ORDER BY ends_at LIMIT 100`;
  await batch(db, [
    sql`DELETE FROM recovery_codes WHERE user_id IN (SELECT user_id
      FROM (${ended}) WHERE status = 'confirmed')`,
    sql`DELETE FROM totp_secrets WHERE (user_id, status) IN (${ended})`,
  ]);
  const old = sql`WHERE at < ${NOW} - ${CODE_LIMITS.windowMs} ORDER BY at`;
  await trimUntilDone(db, rowsOf("totp_attempts", "attempt_id", old));
}
