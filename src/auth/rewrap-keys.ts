/** Seals every API key's secret with the newest master key, so that older ones can be removed. */
import type { Config } from "../platform/config.ts";
import { commitOrThrow, newGroup } from "../platform/commit.ts";
import { errorFields, log } from "../platform/log.ts";
import { all, readUuid, type Sql, sql, uuid } from "../platform/sql.ts";
import { commitAudited } from "./audit.ts";
import { newestKeyId, openSecret, sealSecret } from "./secret-box.ts";

const PAGE = 50;

/**
 * Returns the number of rewrapped secrets and the keys whose secret cannot be opened. Safe to
 * repeat and during operation, because an update applies only if the sealed secret has not changed.
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
    const rows = await all<SealedRow>(
      db,
      sql`SELECT hex(api_key_id) AS id, hex(user_id) AS user_id, secret_sealed AS sealed,
          master_key_id AS master
        FROM api_keys WHERE master_key_id <> ${newest} AND hex(api_key_id) > ${after}
        ORDER BY hex(api_key_id) LIMIT ${PAGE}`,
    );
    if (rows.length === 0) break;
    const results = await Promise.all(rows.map((row) => reseal(settings.MASTER_KEYS, row)));
    const updates = results.filter((update) => update !== undefined);
    await commitOrThrow(db, newGroup(), updates);
    rewrapped += updates.length;
    rows.forEach((row, index) => {
      if (results[index] === undefined) unreadable.push(readUuid(row.id));
    });
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
    await commitAudited(db, { record, when: () => sql`1`, statements: () => [] });
  }
  return { rewrapped, unreadable };
}

type SealedRow = {
  readonly id: string;
  readonly user_id: string;
  readonly sealed: string;
  readonly master: string;
};

/**
 * The update of one row. Undefined if no master key opens it; the other rows are rewrapped all the
 * same, and the result names this one.
 */
async function reseal(ring: Config["MASTER_KEYS"], row: SealedRow): Promise<Sql | undefined> {
  const owner = { apiKeyId: readUuid(row.id), userId: readUuid(row.user_id) };
  try {
    const secret = await openSecret(ring, { sealed: row.sealed, masterKeyId: row.master }, owner);
    const box = await sealSecret(ring, secret, owner);
    return sql`UPDATE api_keys SET secret_sealed = ${box.sealed}, master_key_id = ${box.masterKeyId}
      WHERE api_key_id = ${uuid(owner.apiKeyId)} AND secret_sealed = ${row.sealed}`;
  } catch (error) {
    log("error", "rewrap_unreadable", { api_key_id: owner.apiKeyId, ...errorFields(error) });
    return undefined;
  }
}
