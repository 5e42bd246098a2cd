/** Ends all sessions of a user by raising the epoch, the number that their tokens contain. */
import type { SessionActor } from "../platform/actor.ts";
import { type Alongside, recordOf } from "../audit/audit.ts";
import { type Sql, sql, uuid } from "../platform/sql.ts";
import { commitOwnChange } from "./own-change.ts";
import { revokeKeys } from "./revoke-key.ts";

export async function endSessions(
  db: D1Database,
  request: { actor: SessionActor; revokeKeys: boolean; ip: string | undefined },
  alongside?: Alongside,
): Promise<void> {
  const { actor, ip } = request;
  const { userId } = actor;
  const record = recordOf(actor, "sessions_ended", { ip, subjectId: userId });
  await commitOwnChange(db, actor, {
    record,
    statements: (when) => [
      raiseEpoch(userId, when.applied),
      ...(request.revokeKeys ? revokeKeys({ userId, which: "all" }, record, when) : []),
    ],
    alongside,
  });
}

/** Raises the epoch, after the event `sessions_ended` of the same batch. */
export function raiseEpoch(userId: string, applied: Sql): Sql {
  return sql`UPDATE users SET session_epoch = session_epoch + 1
    WHERE user_id = ${uuid(userId)} AND ${applied}`;
}
