/** Changes the password, which ends all sessions and starts a security hold. */
import type { SessionActor } from "../platform/actor.ts";
import { NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { holds, sql, uuid } from "../platform/sql.ts";
import { type Alongside, auditRow, recordOf } from "../audit/audit.ts";
import { holdMsOf, startHold } from "./hold.ts";
import { inHashTurn } from "./hash-turns.ts";
import { type SessionResponse, sessionResponse } from "./login.ts";
import { ownPlace } from "./login-throttle.ts";
import { commitOwnChange } from "./own-change.ts";
import { hashPassword } from "./password.ts";
import { revokeKeys } from "./revoke-key.ts";
import { sessionsMayTrade } from "./policy.ts";
import { stepUp, type StepUpFields } from "./step-up.ts";

type PasswordChange = {
  readonly actor: SessionActor;
  readonly fields: StepUpFields & { readonly new_password: string };
  /** Whether to revoke the keys that sessions minted. */
  readonly revokeKeys: boolean;
  readonly clientIp: string | undefined;
};

/** Returns a session of the new password. */
export async function changePassword(
  db: D1Database,
  settings: Config,
  change: PasswordChange,
  alongside?: Alongside,
): Promise<SessionResponse> {
  const { fields, clientIp } = change;
  const { actor, email, holdUntil } = await stepUp(db, settings, change, { duringHold: true });
  const { userId } = actor;
  const holdMs = holdMsOf(settings);
  const passwordHash = await inHashTurn(ownPlace("session", { email, clientIp }), () =>
    hashPassword(fields.new_password),
  );
  const epoch = actor.credential.epoch + 1;
  const about = { ip: clientIp, subjectId: userId };
  const ended = recordOf(actor, "sessions_ended", about);
  await commitOwnChange(db, actor, {
    record: recordOf(actor, "password_changed", about),
    statements: (when) => [
      // The guard has compared the epoch with the session's.
      sql`UPDATE users SET password_hash = ${passwordHash}, session_epoch = ${epoch}
        WHERE user_id = ${uuid(userId)} AND ${when.applied}`,
      auditRow(ended, when.at, when.applied),
      ...startHold(settings, { ...ended, userId }, when),
      ...(change.revokeKeys ? revokeKeys({ userId, which: "session_minted" }, ended, when) : []),
    ],
    alongside,
  });
  return sessionResponse(settings, {
    userId,
    epoch,
    holdUntil: Math.max(holdUntil, holdMs === 0 ? 0 : Date.now() + holdMs),
    sessionsTrade: await holds(db, sessionsMayTrade(uuid(userId), NOW)),
  });
}
