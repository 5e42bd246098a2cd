/** Tells owners of keys that end soon, because a bot whose key ends leaves its positions alone. */
import { commitAudited, detailed, recordBy, uuidTextOf } from "../audit/audit.ts";
import type { MacKeys } from "../audit/event-mac.ts";
import { NOW } from "../platform/commit.ts";
import { all, type Expr, readUuid, type Sql, sql, uuid } from "../platform/sql.ts";

/** How long before its end. A key with a shorter life is none that its owner forgets. */
const NOTICE_MS = 7 * 86_400_000;
const KEYS_PER_CALL = 20;

/**
 * Cron: a notice for each key, once. `pushed` is called after it. Returns whether more may wait. A
 * key that is revoked meanwhile gets none.
 */
export async function noticeExpiringKeys(
  db: D1Database,
  keys: MacKeys,
  pushed: (userId: string) => Promise<void>,
): Promise<boolean> {
  const found = await all<{ id: string; userId: string }>(
    db,
    sql`SELECT hex(k.api_key_id) AS id, hex(k.user_id) AS userId ${soon(NOW)}
      LIMIT ${KEYS_PER_CALL}`,
  );
  for (const key of found) {
    const [userId, subjectId] = [readUuid(key.userId), readUuid(key.id)];
    const record = recordBy("service", "api_key_expiring", { userId, subjectId });
    await commitAudited(db, {
      record: detailed(keys, record, {}),
      when: ({ at }) => sql`EXISTS (SELECT 1 ${soon(at)} AND k.api_key_id = ${uuid(subjectId)})`,
      statements: () => [],
    });
    await pushed(userId);
  }
  return found.length === KEYS_PER_CALL;
}

/** The keys whose end is near and that no event has announced. */
function soon(at: Expr): Sql {
  return sql`FROM api_keys k INDEXED BY api_keys_expiry
    WHERE k.expires_at > ${at} AND k.expires_at <= ${at} + ${NOTICE_MS} AND k.revoked_at IS NULL
      AND k.created_at < k.expires_at - ${NOTICE_MS}
      AND NOT EXISTS (SELECT 1 FROM audit_events e INDEXED BY audit_events_rights
        WHERE e.subject_id = ${uuidTextOf("k.api_key_id")} AND e.kind = 'api_key_expiring'
          AND e.details IS NOT NULL)`;
}
