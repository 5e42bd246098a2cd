/**
 * Tells owners what happens to their keys by the clock alone: that one ends soon, because a bot
 * whose key ends leaves its positions alone, and that one which needed no operator gets its scopes,
 * because a thief may have asked for it.
 */
import { commitAudited, detailed, recordBy, uuidTextOf } from "../audit/audit.ts";
import type { MacKeys } from "../audit/event-mac.ts";
import { NOW } from "../platform/commit.ts";
import { all, type Expr, readUuid, type Sql, sql, uuid } from "../platform/sql.ts";

/** How long before its end. A key with a shorter life is none that its owner forgets. */
const NOTICE_MS = 7 * 86_400_000;
const KEYS_PER_CALL = 20;

/** Keys that nobody but their delay gives their scopes. */
const APPROVES_ITSELF = sql`k.active_from > k.created_at AND k.approved_at IS NULL
  AND k.minted_by = 'session' AND k.revoked_at IS NULL`;

/** The keys of which each notice tells, once. */
const NOTICES = {
  api_key_expiring: (at: Expr) => sql`INDEXED BY api_keys_expiry
    WHERE k.expires_at > ${at} AND k.expires_at <= ${at} + ${NOTICE_MS} AND k.revoked_at IS NULL
      AND k.created_at < k.expires_at - ${NOTICE_MS}`,
  api_key_activating: (at: Expr) => sql`INDEXED BY api_keys_delayed
    WHERE ${APPROVES_ITSELF} AND k.active_from > ${at}
      AND (k.created_at + k.active_from) / 2 <= ${at}`,
  api_key_active: (at: Expr) => sql`INDEXED BY api_keys_delayed
    WHERE ${APPROVES_ITSELF} AND k.active_from <= ${at} AND k.active_from > ${at} - ${NOTICE_MS}`,
} as const satisfies Record<string, (at: Expr) => Sql>;
type Notice = keyof typeof NOTICES;

/**
 * Cron: a notice for each key, once. `pushed` is called after it. Returns whether more may wait. A
 * key that is revoked meanwhile gets none.
 */
export async function noticeKeys(
  db: D1Database,
  keys: MacKeys,
  pushed: (userId: string) => Promise<void>,
): Promise<boolean> {
  let more = false;
  // Safe cast: `Object.keys` returns these keys.
  for (const kind of Object.keys(NOTICES) as Notice[]) {
    const found = await all<{ id: string; userId: string }>(
      db,
      sql`SELECT hex(k.api_key_id) AS id, hex(k.user_id) AS userId ${untold(kind, NOW)}
        LIMIT ${KEYS_PER_CALL}`,
    );
    for (const key of found) {
      const [userId, subjectId] = [readUuid(key.userId), readUuid(key.id)];
      await commitAudited(db, {
        record: detailed(keys, recordBy("service", kind, { userId, subjectId }), {}),
        when: ({ at }) =>
          sql`EXISTS (SELECT 1 ${untold(kind, at)} AND k.api_key_id = ${uuid(subjectId)})`,
        statements: () => [],
      });
      await pushed(userId);
    }
    more ||= found.length === KEYS_PER_CALL;
  }
  return more;
}

function untold(kind: Notice, at: Expr): Sql {
  return sql`FROM api_keys k ${NOTICES[kind](at)}
    AND NOT EXISTS (SELECT 1 FROM audit_events e INDEXED BY audit_events_rights
      WHERE e.subject_id = ${uuidTextOf("k.api_key_id")} AND e.kind = ${kind}
        AND e.details IS NOT NULL)`;
}
