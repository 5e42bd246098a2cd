/** Revokes many keys of a user in the batch of the change that ends them. */
import { all, type Expr, readUuid, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7Sql } from "../platform/uuid.ts";
import type { AuditRecord } from "../audit/audit.ts";
import { REVOCATION_DETAILS } from "../audit/event-details.ts";

/** `session_minted`: those that sessions minted. An operator's key stays. */
export type KeysOf = { readonly userId: string; readonly which: "all" | "session_minted" };

/** The statements that revoke the keys, with an audit event for each. */
export function revokeKeys(
  keys: KeysOf,
  by: Pick<AuditRecord, "actor" | "ip">,
  { at, applied }: { at: Expr; applied: Sql },
): Sql[] {
  const live = sql`${liveKeys(keys)} AND ${applied}`;
  return [
    // Before the UPDATE, because it makes these keys look like those revoked earlier.
    sql`INSERT INTO audit_events
        (audit_event_id, kind, actor, user_id, ip, subject_id, details, at)
      SELECT ${uuidv7Sql(at)}, 'api_key_revoked', ${by.actor}, user_id, ${by.ip}, ${UUID_TEXT},
        ${REVOCATION_DETAILS}, ${at}
      FROM api_keys INDEXED BY api_keys_live WHERE ${live}`,
    sql`UPDATE api_keys INDEXED BY api_keys_live SET revoked_at = ${at} WHERE ${live}`,
    // Sessions made them, as they minted the keys.
    sql`UPDATE webhook_endpoints SET disabled_at = ${at}, disabled_reason = 'revoked'
      WHERE user_id = ${uuid(keys.userId)} AND disabled_at IS NULL AND ${applied}`,
  ];
}

/** The keys that `revokeKeys` would revoke now. */
export async function liveKeysOf(db: D1Database, keys: KeysOf): Promise<string[]> {
  const rows = await all<{ id: string }>(
    db,
    sql`SELECT hex(api_key_id) AS id FROM api_keys INDEXED BY api_keys_live
      WHERE ${liveKeys(keys)}`,
  );
  return rows.map(({ id }) => readUuid(id));
}

function liveKeys({ userId, which }: KeysOf): Sql {
  const minted = which === "all" ? sql`` : sql`AND minted_by = 'session'`;
  return sql`user_id = ${uuid(userId)} AND revoked_at IS NULL ${minted}`;
}

/** SQL for `api_key_id` as UUID text. */
const UUID_TEXT = sql`lower(substr(hex(api_key_id), 1, 8) || '-' || substr(hex(api_key_id), 9, 4)
  || '-' || substr(hex(api_key_id), 13, 4) || '-' || substr(hex(api_key_id), 17, 4)
  || '-' || substr(hex(api_key_id), 21))`;
