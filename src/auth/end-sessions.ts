/** Ends all sessions of a user by raising the epoch that their tokens contain. */
import type { SessionActor } from "../platform/actor.ts";
import { type Alongside, detailed, recordOf } from "../audit/audit.ts";
import type { MacKeys } from "../audit/event-mac.ts";
import { commitOwnChange } from "./own-change.ts";
import { revokeKeys } from "./revoke-keys.ts";
import { raiseEpoch } from "./session-epoch.ts";

export async function endSessions(
  db: D1Database,
  settings: MacKeys,
  request: { actor: SessionActor; revokeKeys: boolean; ip: string | undefined },
  alongside?: Alongside,
): Promise<void> {
  const { actor, ip } = request;
  const { userId } = actor;
  const record = recordOf(actor, "sessions_ended", { ip, subjectId: userId });
  await commitOwnChange(db, actor, {
    record: detailed(settings, record, {}),
    statements: (when) => [
      raiseEpoch(userId, when.applied),
      ...(request.revokeKeys ? revokeKeys({ userId, which: "all" }, record, when) : []),
    ],
    alongside,
  });
}
