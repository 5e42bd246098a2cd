/**
 * Changes the password of a user, which ends every session that was made with the old one, and
 * starts a security hold.
 */
import type { SessionActor } from "../platform/actor.ts";
import type { Config } from "../platform/config.ts";
import { sql, uuid } from "../platform/sql.ts";
import { type Alongside, auditRow, commitAudited, recordOf } from "../audit/audit.ts";
import { forgetCredentials } from "./credential-cache.ts";
import { holdMsOf, startHold } from "./hold.ts";
import { inHashTurn } from "./hash-turns.ts";
import { type SessionResponse, sessionResponse } from "./login.ts";
import { ownPlace } from "./login-throttle.ts";
import { mayWrite, throwNotApplied } from "./may-write.ts";
import { hashPassword } from "./password.ts";
import { liveKeysOf, revokeKeys } from "./revoke-keys.ts";
import { detailsOf, passwordSha256 } from "../audit/event-details.ts";
import { readSessionsTrade } from "./policy.ts";
import { nextEpoch } from "./session-epoch.ts";
import { stepUp, type StepUpFields } from "./step-up.ts";

type PasswordChange = {
  readonly actor: SessionActor;
  readonly fields: StepUpFields & { readonly new_password: string };
  /** Whether to revoke the keys that sessions minted. */
  readonly revokeKeys: boolean;
  readonly clientIp: string | undefined;
};

/** Returns a session of the new password, and the ids of the revoked keys. */
export async function changePassword(
  db: D1Database,
  settings: Config,
  change: PasswordChange,
  alongside?: Alongside,
): Promise<{ session: SessionResponse; revokedKeys: readonly string[] }> {
  const { fields, clientIp } = change;
  const { actor, email, holdUntil } = await stepUp(db, settings, change, { duringHold: true });
  const { userId } = actor;
  const holdMs = holdMsOf(settings);
  const passwordHash = await inHashTurn(ownPlace("session", { email, clientIp }), () =>
    hashPassword(fields.new_password),
  );
  const epoch = await nextEpoch(db, { userId, epoch: actor.credential.epoch });
  const keys = { userId, which: "session_minted" } as const;
  const revokedKeys = change.revokeKeys ? await liveKeysOf(db, keys) : [];
  const about = { ip: clientIp, subjectId: userId };
  const ended = {
    ...recordOf(actor, "sessions_ended", about),
    details: detailsOf(settings, "sessions_ended", {}),
  };
  const applied = await commitAudited(db, {
    record: {
      ...recordOf(actor, "password_changed", about),
      details: detailsOf(settings, "password_changed", {
        passwordSha256: passwordSha256(passwordHash),
      }),
    },
    when: ({ at }) => mayWrite(actor, at),
    statements: ({ at }, written) => [
      // The guard has compared the epoch with the session's.
      sql`UPDATE users SET password_hash = ${passwordHash}, session_epoch = ${epoch}
        WHERE user_id = ${uuid(userId)} AND ${written}`,
      auditRow(ended, at, written),
      ...startHold(settings, { ...ended, userId }, { at, applied: written }),
      ...(change.revokeKeys
        ? revokeKeys(keys, { actor: "session", ip: clientIp ?? null }, { at, applied: written })
        : []),
    ],
    alongside,
  });
  forgetCredentials({ userId, apiKeyIds: revokedKeys });
  if (!applied) await throwNotApplied(db, actor);
  return {
    session: await sessionResponse(settings, {
      userId,
      epoch,
      holdUntil: Math.max(holdUntil, holdMs === 0 ? 0 : Date.now() + holdMs),
      sessionsTrade: await readSessionsTrade(db, userId),
    }),
    revokedKeys,
  };
}
