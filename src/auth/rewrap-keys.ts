/**
 * Seals the secrets of API keys and of TOTP with the newest master key, so that older ones can be
 * removed. Keys that an earlier version sealed get the present seal.
 */
import { commitOrThrow, newGroup } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { errorFields, log } from "../platform/log.ts";
import { all, blob, readUuid, select, type Sql, sql } from "../platform/sql.ts";
import { commitAudited, recordBy } from "../audit/audit.ts";
import {
  isPresentVersion,
  KEY_SEAL_COLUMNS,
  openKey,
  type SealedKeyRow,
  sealKey,
} from "./key-seal.ts";
import { newestKeyId } from "./secret-box.ts";
import { rewrapTotp } from "./totp-secret.ts";
import { rewrapWebhooks } from "./webhook-secrets.ts";

const PAGE = 50;

/**
 * Returns the number of rewrapped secrets, the keys whose secret cannot be opened, and the users
 * whose TOTP secret cannot. Safe to repeat and during operation, because an update applies only if
 * the sealed secret has not changed.
 */
export async function rewrapKeys(
  db: D1Database,
  settings: Config,
  operator = "operator",
): Promise<{ rewrapped: number; unreadable: readonly string[] }> {
  const newest = newestKeyId(settings.MASTER_KEYS);
  let rewrapped = 0;
  const unreadable: string[] = [];
  let after = "";
  for (;;) {
    const rows = await all<SealedKeyRow>(
      db,
      sql`SELECT ${select(KEY_SEAL_COLUMNS)} FROM api_keys k WHERE k.api_key_id > ${blob(after)}
        ORDER BY k.api_key_id LIMIT ${PAGE}`,
    );
    const stale = rows.filter((row) => row.masterKeyId !== newest || !isPresentVersion(row));
    const results = await Promise.all(stale.map((row) => reseal(settings, row)));
    const updates = results.filter((update) => update !== undefined);
    if (updates.length > 0) await commitOrThrow(db, newGroup(), updates);
    rewrapped += updates.length;
    stale.forEach((row, index) => {
      if (results[index] === undefined) unreadable.push(readUuid(row.keyHex));
    });
    const last = rows.at(-1);
    if (last === undefined) break;
    after = last.keyHex;
  }
  const totp = await rewrapTotp(db, settings.MASTER_KEYS);
  rewrapped += totp.rewrapped;
  unreadable.push(...totp.unreadable);
  const webhooks = await rewrapWebhooks(db, settings.MASTER_KEYS);
  rewrapped += webhooks.rewrapped;
  unreadable.push(...webhooks.unreadable);
  if (rewrapped > 0) {
    const record = recordBy(`operator:${operator}`, "keys_rewrapped", { subjectId: newest });
    await commitAudited(db, { record, when: () => sql`1`, statements: () => [] });
  }
  return { rewrapped, unreadable };
}

/**
 * The update of one row. Undefined if the row does not open; the other rows are rewrapped all the
 * same, and the result names this one.
 */
async function reseal(settings: Config, row: SealedKeyRow): Promise<Sql | undefined> {
  const key = { ...row, apiKeyId: readUuid(row.keyHex), userId: readUuid(row.userHex) };
  try {
    const secret = await openKey(settings, row, key);
    const box = await sealKey(settings.MASTER_KEYS, secret, key);
    return sql`UPDATE api_keys SET secret_sealed = ${box.sealed}, master_key_id = ${box.masterKeyId}
      WHERE api_key_id = ${blob(row.keyHex)} AND secret_sealed = ${row.sealed}`;
  } catch (error) {
    log("error", "rewrap_unreadable", { api_key_id: key.apiKeyId, ...errorFields(error) });
    return undefined;
  }
}
