/** Revokes many keys of a user in the batch of the change that ends them. */
import { type Expr, first, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7Sql } from "../platform/uuid.ts";
import { type AuditRecord, uuidTextOf } from "../audit/audit.ts";
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
      SELECT ${uuidv7Sql(at)}, 'api_key_revoked', ${by.actor}, user_id, ${by.ip}, ${uuidTextOf("api_key_id")},
        ${REVOCATION_DETAILS}, ${at}
      FROM api_keys INDEXED BY api_keys_live WHERE ${live}`,
    sql`UPDATE api_keys INDEXED BY api_keys_live SET revoked_at = ${at} WHERE ${live}`,
    // Sessions made them, as they minted the keys.
    sql`UPDATE webhook_endpoints SET disabled_at = ${at}, disabled_reason = 'revoked'
      WHERE user_id = ${uuid(keys.userId)} AND disabled_at IS NULL AND ${applied}`,
  ];
}

/** How many keys `revokeKeys` would revoke now. */
export async function countLiveKeys(db: D1Database, keys: KeysOf): Promise<number> {
  const row = await first<{ n: number }>(
    db,
    sql`SELECT count(*) AS n FROM api_keys INDEXED BY api_keys_live WHERE ${liveKeys(keys)}`,
  );
  return row?.n ?? 0;
}

function liveKeys({ userId, which }: KeysOf): Sql {
  const minted = which === "all" ? sql`` : sql`AND minted_by = 'session'`;
  return sql`user_id = ${uuid(userId)} AND revoked_at IS NULL ${minted}`;
}
