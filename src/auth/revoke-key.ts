/** Revokes one API key, or many of a user in the batch of the change that ends them. */
import { type Expr, expr, scalar, type Sql, sql, TRUE, uuid } from "../platform/sql.ts";
import type { When } from "../platform/commit.ts";
import { problem, Problem } from "../platform/problem.ts";
import type { Actor } from "../platform/actor.ts";
import { findKey, type KeyRecord, ownerOfKey } from "./api-key.ts";
import {
  type Alongside,
  type AuditRecord,
  auditRows,
  commitAudited,
  recordBy,
  recordOf,
  uuidTextOf,
} from "../audit/audit.ts";
import { forgetCredentials } from "./credential-cache.ts";
import { actorRejection, changedMeanwhile, mayWrite } from "./may-write.ts";

/** A session revokes any key of its user, a key itself. Idempotent. Throws `api_key_unknown_id`. */
export async function revokeOwnApiKey(
  db: D1Database,
  request: { actor: Actor; apiKeyId: string; ip: string | undefined },
  alongside?: Alongside,
): Promise<KeyRecord> {
  const { actor, apiKeyId } = request;
  const { credential } = actor;
  if (credential.kind === "api_key" && credential.apiKeyId !== apiKeyId) {
    throw problem(
      "session_required",
      "An API key can revoke only itself. Use a session to revoke another key.",
    );
  }
  // A key may revoke itself before it has its scopes, so `mayWrite` would be too strict for it.
  const allowed = (at: Expr) =>
    credential.kind === "session"
      ? mayWrite(actor, at)
      : expr`EXISTS (
          SELECT 1 FROM users WHERE user_id = ${uuid(actor.userId)} AND frozen_at IS NULL)`;
  const record = recordOf(actor, "api_key_revoked", { ip: request.ip, subjectId: apiKeyId });
  const applied = await revoke(db, { userId: actor.userId, record, allowed, alongside });
  if (!applied && credential.kind === "session") {
    const rejection = await actorRejection(db, actor);
    if (rejection !== undefined) throw new Problem(rejection);
  }
  const key = await findKey(db, { apiKeyId, userId: actor.userId });
  if (key === undefined) throw problem("api_key_unknown_id", "You have no API key with this id.");
  if (!applied && key.revoked_at === null) throw await notRevoked(db, actor);
  return key;
}

/** A freeze was in the way, which may have ended since. */
async function notRevoked(db: D1Database, actor: Actor): Promise<Problem> {
  const rejection = await actorRejection(db, actor);
  return rejection?.code === "account_frozen" ? new Problem(rejection) : changedMeanwhile();
}

/** Revokes a key for the operator. False if the key is unknown or already revoked. */
export async function revokeApiKey(
  db: D1Database,
  request: { apiKeyId: string; operator: string },
  alongside?: Alongside,
): Promise<boolean> {
  const userId = await ownerOfKey(db, request.apiKeyId);
  if (userId === undefined) return false;
  const subjectId = request.apiKeyId;
  const record = recordBy(`operator:${request.operator}`, "api_key_revoked", { userId, subjectId });
  return revoke(db, { userId, record, allowed: () => TRUE, alongside });
}

/** Revokes the key that is the subject of `record`. */
async function revoke(
  db: D1Database,
  request: {
    userId: string;
    record: AuditRecord;
    allowed: (at: Expr) => Expr;
    alongside: Alongside | undefined;
  },
): Promise<boolean> {
  const { userId, record, alongside } = request;
  const key = sql`api_key_id = ${uuid(record.subjectId ?? "")} AND user_id = ${uuid(userId)}
    AND revoked_at IS NULL`;
  const applied = await commitAudited(db, {
    record,
    when: ({ at }) => sql`${request.allowed(at)} AND EXISTS (SELECT 1 FROM api_keys WHERE ${key})`,
    statements: ({ at }, written) => [
      sql`UPDATE api_keys SET revoked_at = ${at} WHERE ${key} AND ${written}`,
    ],
    alongside,
  });
  forgetCredentials(userId);
  return applied;
}

/** `session_minted`: those that sessions minted. An operator's key stays. */
export type KeysOf = { readonly userId: string; readonly which: "all" | "session_minted" };

/** The statements that revoke the keys, with an audit event for each. */
export function revokeKeys(
  keys: KeysOf,
  by: Pick<AuditRecord, "actor" | "ip">,
  { at, applied }: When,
): Sql[] {
  const live = sql`${liveKeys(keys)} AND ${applied}`;
  return [
    // Before the UPDATE, because it makes these keys look like those revoked earlier.
    auditRows(
      { ...by, kind: "api_key_revoked" },
      at,
      sql`SELECT user_id, ${uuidTextOf("api_key_id")} AS subject_id
        FROM api_keys INDEXED BY api_keys_live WHERE ${live}`,
    ),
    sql`UPDATE api_keys INDEXED BY api_keys_live SET revoked_at = ${at} WHERE ${live}`,
    // Sessions made them, as they minted the keys.
    sql`UPDATE webhook_endpoints SET disabled_at = ${at}, disabled_reason = 'revoked'
      WHERE user_id = ${uuid(keys.userId)} AND disabled_at IS NULL AND ${applied}`,
  ];
}

/** How many keys `revokeKeys` would revoke now. */
export function countLiveKeys(db: D1Database, keys: KeysOf): Promise<number> {
  return scalar(
    db,
    expr`SELECT count(*) FROM api_keys INDEXED BY api_keys_live WHERE ${liveKeys(keys)}`,
  );
}

function liveKeys({ userId, which }: KeysOf): Sql {
  const minted = which === "all" ? sql`` : sql`AND minted_by = 'session'`;
  return sql`user_id = ${uuid(userId)} AND revoked_at IS NULL ${minted}`;
}
