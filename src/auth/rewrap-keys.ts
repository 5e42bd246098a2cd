/** Seals every key's secret anew under the newest master key, so that the older ones can leave the ring. */
import type { Config } from "../platform/config.ts";
import { commitOrThrow, newGroup } from "../platform/commit.ts";
import { all, readUuid, sql, uuid } from "../platform/sql.ts";
import { commitAudited } from "./audit.ts";
import { newestKeyId, openSecret, sealSecret } from "./secret-box.ts";

const PAGE = 50;

/** Safe to repeat and to run beside live traffic: a row that was resealed meanwhile is left alone. Returns how many moved. */
export async function rewrapKeys(db: D1Database, settings: Config, operator = "operator"): Promise<{ rewrapped: number }> {
  const newest = newestKeyId(settings.MASTER_KEYS);
  let rewrapped = 0;
  let after = "";
  for (;;) {
    const rows = await all<{ id: string; user_id: string; sealed: string; master: string }>(
      db,
      sql`SELECT hex(api_key_id) AS id, hex(user_id) AS user_id, secret_sealed AS sealed, master_key_id AS master FROM api_keys
        WHERE master_key_id <> ${newest} AND hex(api_key_id) > ${after} ORDER BY hex(api_key_id) LIMIT ${PAGE}`,
    );
    if (rows.length === 0) break;
    const updates = await Promise.all(
      rows.map(async (row) => {
        const owner = { apiKeyId: readUuid(row.id), userId: readUuid(row.user_id) };
        const secret = await openSecret(settings.MASTER_KEYS, { sealed: row.sealed, masterKeyId: row.master }, owner);
        const box = await sealSecret(settings.MASTER_KEYS, secret, owner);
        return sql`UPDATE api_keys SET secret_sealed = ${box.sealed}, master_key_id = ${box.masterKeyId}
          WHERE api_key_id = ${uuid(owner.apiKeyId)} AND secret_sealed = ${row.sealed}`;
      }),
    );
    await commitOrThrow(db, newGroup(), updates);
    rewrapped += rows.length;
    after = rows.at(-1)?.id ?? after;
  }
  if (rewrapped > 0) {
    const record = {
      kind: "keys_rewrapped",
      actor: `operator:${operator}`,
      userId: null,
      apiKeyId: null,
      ip: null,
      subjectId: newest,
    } as const;
    await commitAudited(db, { record, when: () => sql`1`, then: () => [] });
  }
  return { rewrapped };
}
