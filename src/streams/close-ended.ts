/** Closes sockets of credentials ended at any time, so a repeat closes what a first call left. */
import { NOW } from "../platform/commit.ts";
import { logged } from "../platform/log.ts";
import { all, readUuid, type Sql, sql, uuid } from "../platform/sql.ts";
import { pushNotices } from "./notice.ts";
import { closeSockets, type SocketsOf } from "./notify.ts";

/** More than two minutes of cron, so that each ended credential is handled at least twice. */
const RECENT_MS = 150_000;

/** Tells a user's sockets of changed rights and closes those of ended credentials. Never throws. */
export async function rightsChanged(
  env: Env,
  userId: string,
  credentials: "ended" | "kept",
): Promise<void> {
  // First, because the owner of closed sockets receives nothing more.
  await pushNotices(env, userId);
  if (credentials === "kept") return;
  const closed = closeEnded(env, sql`SELECT ${uuid(userId)}`);
  await closed.catch(logged("warn", "streams.rights_not_told", { user_id: userId }));
}

/** Cron: once more, because the call that ended a credential may have died before it did. */
export function closeSocketsOfEndedCredentials(env: Env): Promise<void> {
  return closeEnded(
    env,
    sql`SELECT user_id FROM audit_events INDEXED BY audit_events_ended
      WHERE at > ${NOW} - ${RECENT_MS}
        AND kind IN ('account_frozen', 'api_key_revoked', 'sessions_ended')`,
  );
}

type Opened = {
  readonly user_id: string;
  /** The key. The user for a session, and for everything that a frozen user has. */
  readonly opener: string;
  readonly frozen: number;
  readonly epoch: number;
  readonly stream: string;
};

async function closeEnded(env: Env, users: Sql): Promise<void> {
  const opened = await endedStreams(env.DB, users);
  await Promise.all(opened.map((row) => closeSockets(env, row.stream, socketsOf(row))));
}

/** The streams on which ended credentials of some users (a SELECT) may have open sockets. */
export function endedStreams(db: D1Database, users: Sql): Promise<Opened[]> {
  return all<Opened>(
    db,
    sql`SELECT DISTINCT hex(u.user_id) AS user_id, o.stream, u.session_epoch AS epoch,
        u.frozen_at IS NOT NULL AS frozen,
        hex(iif(u.frozen_at IS NULL, o.opener, u.user_id)) AS opener
      FROM users u CROSS JOIN opened_streams o ON o.user_id = u.user_id
        LEFT JOIN api_keys k ON k.api_key_id = o.opener
      WHERE u.user_id IN (${users})
        AND (u.frozen_at IS NOT NULL OR o.opener = u.user_id OR k.revoked_at IS NOT NULL)`,
  );
}

function socketsOf({ user_id, opener, frozen, epoch }: Opened): SocketsOf {
  const userId = readUuid(user_id);
  if (frozen === 1) return { userId };
  return opener === user_id
    ? { sessionsOf: userId, belowEpoch: epoch }
    : { apiKeyId: readUuid(opener) };
}
