/** Ends all sessions of a user by raising the epoch that their tokens contain. */
import { mayWrite, throwNotApplied } from "./may-write.ts";
import { type Alongside, commitAudited, recordOf } from "../audit/audit.ts";
import { forgetCredentials } from "./credential-cache.ts";
import type { MacKeys } from "../audit/event-mac.ts";
import { detailsOf } from "../audit/event-details.ts";
import { liveKeysOf, revokeKeys } from "./revoke-keys.ts";
import { raiseEpoch } from "./session-epoch.ts";
import type { SessionActor } from "../platform/actor.ts";

export async function endSessions(
  db: D1Database,
  settings: MacKeys,
  request: { actor: SessionActor; revokeKeys: boolean; ip: string | undefined },
  alongside?: Alongside,
): Promise<void> {
  const { actor, ip } = request;
  const keys = { userId: actor.userId, which: "all" } as const;
  // A key that is minted meanwhile is not in this isolate's cache, or for a few seconds only.
  const liveKeys = request.revokeKeys ? await liveKeysOf(db, keys) : [];
  const applied = await commitAudited(db, {
    record: {
      ...recordOf(actor, "sessions_ended", { ip, subjectId: actor.userId }),
      details: detailsOf(settings, "sessions_ended", {}),
    },
    when: ({ at }) => mayWrite(actor, at),
    statements: ({ at }, written) => [
      raiseEpoch(actor.userId, written),
      ...(request.revokeKeys
        ? revokeKeys(keys, { actor: "session", ip: ip ?? null }, { at, applied: written })
        : []),
    ],
    alongside,
  });
  forgetCredentials({ userId: actor.userId, apiKeyIds: liveKeys });
  if (!applied) await throwNotApplied(db, actor);
}
