/**
 * Closes the sockets of recently ended credentials. A user who is no longer frozen keeps their
 * sockets.
 */
import { NOW } from "../platform/commit.ts";
import { errorFields, log } from "../platform/log.ts";
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

/**
 * Tells the open sockets of a user what a change of their rights did: notices, and, if credentials
 * may have ended, which. Never throws.
 */
export async function rightsChanged(
  env: Env,
  userId: string,
  credentials: "ended" | "kept",
): Promise<void> {
  await Promise.all([
    pushNotices(env, userId),
    ...(credentials === "ended" ? [closeEndedOf(env, userId)] : []),
  ]).catch((error: unknown) =>
    log("warn", "streams.rights_not_told", { user_id: userId, ...errorFields(error) }),
  );
}

type Opened = { readonly opener: string; readonly epoch: number; readonly stream: string };

/** By what has ended at any time, so that a repeated call closes what the first one could not. */
async function closeEndedOf(env: Env, userId: string): Promise<void> {
  const opened = await all<Opened>(
    env.DB,
    sql`SELECT hex(o.opener) AS opener, u.session_epoch AS epoch, o.stream
      FROM users u CROSS JOIN opened_streams o ON o.user_id = u.user_id
        LEFT JOIN api_keys k ON k.api_key_id = o.opener
      WHERE u.user_id = ${uuid(userId)} AND (o.opener = u.user_id OR k.revoked_at IS NOT NULL)`,
  );
  await Promise.all(
    [...Map.groupBy(opened, ({ opener }) => readUuid(opener))].map(([opener, rows]) => {
      const sessions = { sessionsOf: userId, belowEpoch: rows[0]?.epoch ?? 0 };
      return closeSockets(
        env,
        rows.map(({ stream }) => stream),
        opener === userId.toLowerCase() ? sessions : { apiKeyId: opener },
      );
    }),
  );
}

/** Cron: once more, because the call that ended a credential may have died before it did. */
export async function closeEndedSockets(env: Env): Promise<void> {
  const ended = await all<Ended>(
    env.DB,
    sql`SELECT DISTINCT a.kind, hex(a.user_id) AS user_id, a.subject_id, u.session_epoch AS epoch,
        o.stream
      FROM audit_events a INDEXED BY audit_events_ended JOIN users u ON u.user_id = a.user_id
        JOIN opened_streams o ON o.user_id = a.user_id AND (a.kind = 'account_frozen' OR o.opener =
          iif(a.kind = 'api_key_revoked', unhex(a.subject_id, '-'), a.user_id))
      WHERE a.at > ${NOW} - ${RECENT_MS} AND a.kind IN ('account_frozen', 'api_key_revoked',
        'sessions_ended')
        AND (a.kind <> 'account_frozen' OR u.frozen_at IS NOT NULL)`,
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
