/** Ends all sessions of a user by raising the epoch that their tokens contain. */
import { Problem } from "../platform/problem.ts";
import { all, readUuid, sql, uuid } from "../platform/sql.ts";
import { uuidv7Sql } from "../platform/uuid.ts";
import { actorRejection, mayWrite } from "./may-write.ts";
import { commitAudited, recordOf } from "./audit.ts";
import { forgetCredentials } from "./credential-cache.ts";
import type { SessionActor } from "../platform/actor.ts";

export async function endSessions(
  db: D1Database,
  request: { actor: SessionActor; revokeKeys: boolean; ip: string | undefined },
): Promise<void> {
  const { actor, ip } = request;
  const mine = sql`user_id = ${uuid(actor.userId)}`;
  // A key that is minted meanwhile is not in this isolate's cache, or for a few seconds only.
  const liveKeys = request.revokeKeys ? await liveKeysOf(db, actor.userId) : [];
  const applied = await commitAudited(db, {
    record: recordOf(actor, "sessions_ended", { ip, subjectId: actor.userId }),
    when: ({ at }) => mayWrite(actor, at),
    statements: ({ at }, written) => [
      sql`UPDATE users SET session_epoch = session_epoch + 1 WHERE ${mine} AND ${written}`,
      ...(request.revokeKeys
        ? [
            // Before the UPDATE, because it makes these keys look like those revoked earlier.
            sql`INSERT INTO audit_events
                (audit_event_id, kind, actor, user_id, ip, subject_id, at)
              SELECT ${uuidv7Sql(at)}, 'api_key_revoked', 'session', user_id, ${ip ?? null},
                ${UUID_TEXT}, ${at}
              FROM api_keys INDEXED BY api_keys_live
              WHERE ${mine} AND revoked_at IS NULL AND ${written}`,
            sql`UPDATE api_keys INDEXED BY api_keys_live SET revoked_at = ${at}
              WHERE ${mine} AND revoked_at IS NULL AND ${written}`,
          ]
        : []),
    ],
  });
  forgetCredentials({ userId: actor.userId, apiKeyIds: liveKeys });
  if (applied) return;
  const rejection = await actorRejection(db, actor);
  if (rejection !== undefined) throw new Problem(rejection);
  throw new Error("the guard did not apply, but its preconditions hold");
}

async function liveKeysOf(db: D1Database, userId: string): Promise<string[]> {
  const rows = await all<{ id: string }>(
    db,
    sql`SELECT hex(api_key_id) AS id FROM api_keys INDEXED BY api_keys_live
      WHERE user_id = ${uuid(userId)} AND revoked_at IS NULL`,
  );
  return rows.map(({ id }) => readUuid(id));
}

/** SQL for `api_key_id` as UUID text. */
const UUID_TEXT = sql`lower(substr(hex(api_key_id), 1, 8) || '-' || substr(hex(api_key_id), 9, 4)
  || '-' || substr(hex(api_key_id), 13, 4) || '-' || substr(hex(api_key_id), 17, 4)
  || '-' || substr(hex(api_key_id), 21))`;
