/**
 * Closes the sockets of recently ended credentials. A user who is no longer frozen keeps their
 * sockets.
 */
import { NOW } from "../platform/commit.ts";
import { all, readUuid, sql, uuid } from "../platform/sql.ts";
import { pushNotices } from "./notice.ts";
import { closeSockets, type SocketsOf } from "./notify.ts";

/** More than two minutes of cron, so that each ended credential is handled at least twice. */
const RECENT_MS = 150_000;

type Ended = {
  readonly kind: string;
  readonly user_id: string;
  readonly subject_id: string | null;
  readonly epoch: number;
  readonly stream: string;
};

/** Tells the open sockets of a user what a change of rights did: notices, and what has ended. */
export async function rightsChanged(env: Env, userId: string): Promise<void> {
  await pushNotices(env, userId);
  await closeEndedSockets(env, userId);
}

/**
 * Of one user, or of all. Cron does it once more, because the call that ended a credential may have
 * died before it closed the sockets.
 */
export async function closeEndedSockets(env: Env, userId?: string): Promise<void> {
  const own = userId === undefined ? sql`` : sql`AND a.user_id = ${uuid(userId)}`;
  const ended = await all<Ended>(
    env.DB,
    sql`SELECT DISTINCT a.kind, hex(a.user_id) AS user_id, a.subject_id, u.session_epoch AS epoch,
        o.stream
      FROM audit_events a INDEXED BY audit_events_ended JOIN users u ON u.user_id = a.user_id
        JOIN opened_streams o ON o.user_id = a.user_id AND (a.kind = 'account_frozen' OR o.opener =
          iif(a.kind = 'api_key_revoked', unhex(a.subject_id, '-'), a.user_id))
      WHERE a.at > ${NOW} - ${RECENT_MS} AND a.kind IN ('account_frozen', 'api_key_revoked',
        'sessions_ended')
        AND (a.kind <> 'account_frozen' OR u.frozen_at IS NOT NULL) ${own}`,
  );
  const byCredential = Map.groupBy(ended, ({ kind, user_id, subject_id }) =>
    [kind, user_id, subject_id].join(" "),
  );
  for (const rows of byCredential.values()) {
    const whose = rows[0] && socketsOf(rows[0]);
    const streams = rows.map(({ stream }) => stream);
    if (whose !== undefined) await closeSockets(env, streams, whose);
  }
}

function socketsOf({ kind, user_id, subject_id, epoch }: Ended): SocketsOf | undefined {
  const userId = readUuid(user_id);
  if (kind === "account_frozen") return { userId };
  if (kind === "sessions_ended") return { sessionsOf: userId, belowEpoch: epoch };
  return subject_id === null ? undefined : { apiKeyId: subject_id };
}
