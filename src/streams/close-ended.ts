/**
 * Cron: closes the sockets of recently ended credentials once more, because the call that ended
 * them may have died before it closed them. A user who is no longer frozen keeps their sockets.
 */
import { openedStreams } from "../auth/ws-ticket.ts";
import { NOW } from "../platform/commit.ts";
import { all, readUuid, sql } from "../platform/sql.ts";
import { closeSockets } from "./notify.ts";

/** More than two runs of cron, so that each ended credential is handled at least twice. */
const RECENT_MS = 150_000;

type Ended = {
  readonly kind: string;
  readonly user_id: string;
  readonly subject_id: string | null;
  readonly epoch: number;
};

export async function closeEndedSockets(env: Env): Promise<void> {
  const ended = await all<Ended>(
    env.DB,
    sql`SELECT DISTINCT a.kind, hex(a.user_id) AS user_id, a.subject_id, u.session_epoch AS epoch
      FROM audit_events a INDEXED BY audit_events_ended JOIN users u ON u.user_id = a.user_id
      WHERE a.at > ${NOW} - ${RECENT_MS} AND a.kind IN ('account_frozen', 'api_key_revoked',
        'sessions_ended')
        AND (a.kind <> 'account_frozen' OR u.frozen_at IS NOT NULL)`,
  );
  for (const { kind, user_id, subject_id, epoch } of ended) {
    const userId = readUuid(user_id);
    if (kind === "api_key_revoked" && subject_id !== null) {
      await closeSockets(
        env,
        await openedStreams(env.DB, userId, { kind: "api_key", apiKeyId: subject_id }),
        { apiKeyId: subject_id },
      );
    } else if (kind === "account_frozen") {
      await closeSockets(env, await openedStreams(env.DB, userId, { kind: "all" }), { userId });
    } else if (kind === "sessions_ended") {
      await closeSockets(env, await openedStreams(env.DB, userId, { kind: "sessions" }), {
        sessionsOf: userId,
        belowEpoch: epoch,
      });
    }
  }
}
