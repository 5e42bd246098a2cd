/**
 * Approves a withdraw key that a user has asked for. The operator never sees its secret: the seal
 * binds when the key becomes active, so the secret is sealed again here.
 */
import type { Config } from "../platform/config.ts";
import { NOW } from "../platform/commit.ts";
import {
  all,
  type Expr,
  expr,
  first,
  readUuid,
  scalar,
  select,
  sql,
  uuid,
} from "../platform/sql.ts";
import { commitAudited, recordBy, uuidTextOf } from "../audit/audit.ts";
import { forgetCredentials } from "./credential-cache.ts";
import { KEY_SEAL_COLUMNS, openKey, type SealedKey, sealKey } from "./key-seal.ts";

/** How long a key waits for approval. After it cron deletes the key. */
export const KEY_APPROVAL_MS = 7 * 86_400_000;

/** Condition over `api_keys k`: the key waits for approval. */
function waits(at: Expr) {
  return sql`k.active_from IS NULL AND k.revoked_at IS NULL AND k.expires_at > ${at}
    AND k.created_at > ${at} - ${KEY_APPROVAL_MS}`;
}

/** The keys that wait for approval, the oldest first. */
export function listWaitingKeys(db: D1Database) {
  return all<{ id: string; email: string; label: string; at: number }>(
    db,
    sql`SELECT ${uuidTextOf("k.api_key_id")} AS id, u.email, k.label, k.created_at AS at
      FROM api_keys k JOIN users u USING (user_id) WHERE ${waits(NOW)}
      ORDER BY k.created_at LIMIT 100`,
  );
}

/** The owner of the key. Undefined if no such key waits for approval. */
export async function ownerOfWaitingKey(
  db: D1Database,
  apiKeyId: string,
): Promise<string | undefined> {
  const owner = await scalar<string | null>(
    db,
    expr`SELECT hex(k.user_id) FROM api_keys k
      WHERE k.api_key_id = ${uuid(apiKeyId)} AND ${waits(NOW)}`,
  );
  return owner === null ? undefined : readUuid(owner);
}

/** Returns when the key gets its scopes, or undefined. Until then its owner can revoke it. */
export async function approveApiKey(
  db: D1Database,
  settings: Config,
  { apiKeyId, operator }: { apiKeyId: string; operator: string },
): Promise<number | undefined> {
  const row = await first<SealedKey & { now: number }>(
    db,
    sql`SELECT ${select(KEY_SEAL_COLUMNS)}, ${NOW} AS now FROM api_keys k
      WHERE k.api_key_id = ${uuid(apiKeyId)} AND ${waits(NOW)}`,
  );
  if (row === undefined) return undefined;
  const { now, ...key } = row;
  const { userId } = key;
  const secret = await openKey(settings, key);
  const activeFrom = now + settings.AUTH_OPERATOR_KEY_DELAY_SECS * 1_000;
  const box = await sealKey(settings.MASTER_KEYS, secret, { ...key, activeFrom });
  const same = sql`k.api_key_id = ${uuid(apiKeyId)} AND k.secret_sealed = ${key.sealed}`;
  const about = { userId, subjectId: apiKeyId };
  const record = recordBy(`operator:${operator}`, "api_key_approved", about);
  const applied = await commitAudited(db, {
    record: record,
    when: ({ at }) => sql`EXISTS (SELECT 1 FROM api_keys k WHERE ${same} AND ${waits(at)})`,
    statements: ({ at }, written) => [
      sql`UPDATE api_keys AS k SET secret_sealed = ${box.sealed},
          master_key_id = ${box.masterKeyId}, active_from = ${activeFrom}, approved_at = ${at}
        WHERE ${same} AND ${written}`,
    ],
  });
  forgetCredentials(userId);
  return applied ? activeFrom : undefined;
}
