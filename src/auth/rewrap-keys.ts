/** Seals every secret with the newest master key, so that older ones can be removed. */
import type { Config } from "../platform/config.ts";
import { errorFields, log } from "../platform/log.ts";
import { all, batch, raw, readUuid, select, sql } from "../platform/sql.ts";
import { commitAudited, recordBy } from "../audit/audit.ts";
import { bindingOfKey, KEY_SEAL_COLUMNS, type SealedKey } from "./key-seal.ts";
import { newestKeyId, openSecret, type Sealed, sealSecret } from "./secret-box.ts";
import { bindingOfTotp, openTotp } from "./totp-secret.ts";
import { bindingOfWebhook } from "./webhook-secrets.ts";

/** Where secrets are. */
type Place<Row> = {
  readonly table: string;
  readonly sealed: string;
  readonly masterKeyId: string;
  /** The columns of `Row`. */
  readonly columns: string;
  /** Whose secret it is, and what its seal binds. */
  readonly read: (row: Row) => {
    readonly owner: string;
    readonly boundTo: string;
    /** How an older version bound it. */
    readonly open?: (ring: Config["MASTER_KEYS"], box: Sealed) => Promise<string>;
  };
};
type Rewrapped = { rewrapped: number; readonly unreadable: string[] };

const KEYS: Place<SealedKey> = {
  table: "api_keys AS k",
  sealed: "secret_sealed",
  masterKeyId: "master_key_id",
  columns: select(KEY_SEAL_COLUMNS).text,
  read: (key) => ({ owner: key.apiKeyId, boundTo: bindingOfKey(key) }),
};
type TotpRow = { user: string; status: "pending" | "confirmed"; since: number; recovered: number };
const TOTP: Place<TotpRow> = {
  table: "totp_secrets",
  sealed: "secret_sealed",
  masterKeyId: "master_key_id",
  columns: "hex(user_id) AS user, status, created_at AS since, recovered",
  read: ({ user, ...rest }) => {
    const bound = { userId: readUuid(user), ...rest };
    const open = (ring: Config["MASTER_KEYS"], box: Sealed) => openTotp(ring, box, bound);
    return { owner: bound.userId, boundTo: bindingOfTotp(bound), open };
  },
};
const NEXT_TOTP = {
  ...TOTP,
  sealed: "next_sealed",
  masterKeyId: "next_master_key_id",
  columns: "hex(user_id) AS user, status, next_from AS since, recovered",
};
const WEBHOOKS: Place<{ id: string; user: string; url: string; types: string }> = {
  table: "webhook_endpoints",
  sealed: "secrets_sealed",
  masterKeyId: "master_key_id",
  columns: "hex(endpoint_id) AS id, hex(user_id) AS user, url, types",
  read: ({ id, user, ...terms }) => {
    const owner = readUuid(id);
    const boundTo = bindingOfWebhook({ ...terms, endpointId: owner, userId: readUuid(user) });
    return { owner, boundTo };
  },
};

/**
 * Returns the number of rewrapped secrets, and whose secrets cannot be opened. Safe to repeat and
 * during operation, because an update applies only if the sealed secret has not changed.
 */
export async function rewrapKeys(
  db: D1Database,
  { MASTER_KEYS: ring }: Pick<Config, "MASTER_KEYS">,
  operator = "operator",
): Promise<Rewrapped> {
  const result: Rewrapped = { rewrapped: 0, unreadable: [] };
  await rewrap(db, ring, KEYS, result);
  await rewrap(db, ring, TOTP, result);
  await rewrap(db, ring, NEXT_TOTP, result);
  await rewrap(db, ring, WEBHOOKS, result);
  if (result.rewrapped > 0) {
    const subjectId = newestKeyId(ring);
    const record = recordBy(`operator:${operator}`, "keys_rewrapped", { subjectId });
    await commitAudited(db, { record, when: () => sql`1`, statements: () => [] });
  }
  return result;
}

const PAGE = 50;

async function rewrap<Row>(
  db: D1Database,
  ring: Config["MASTER_KEYS"],
  place: Place<Row>,
  result: Rewrapped,
): Promise<void> {
  const table = raw(place.table);
  const [sealed, masterKeyId] = [raw(place.sealed), raw(place.masterKeyId)];
  for (let after = 0; ;) {
    const rows = await all<Row & Sealed & { rowId: number }>(
      db,
      sql`SELECT rowid AS rowId, ${raw(place.columns)}, ${sealed} AS sealed,
          ${masterKeyId} AS masterKeyId
        FROM ${table} WHERE rowid > ${after} AND ${masterKeyId} <> ${newestKeyId(ring)}
        ORDER BY rowid LIMIT ${PAGE}`,
    );
    const updates = await Promise.all(
      rows.map(async (row) => {
        const { owner, boundTo, open } = place.read(row);
        try {
          const secret = await (open?.(ring, row) ?? openSecret(ring, row, boundTo));
          const box = await sealSecret(ring, secret, boundTo);
          return sql`UPDATE ${table} SET ${sealed} = ${box.sealed},
              ${masterKeyId} = ${box.masterKeyId}
            WHERE rowid = ${row.rowId} AND ${sealed} = ${row.sealed}`;
        } catch (error) {
          log("error", "rewrap_unreadable", { table: place.table, owner, ...errorFields(error) });
          result.unreadable.push(owner);
          return undefined;
        }
      }),
    );
    const opened = updates.filter((update) => update !== undefined);
    if (opened.length > 0) await batch(db, opened);
    result.rewrapped += opened.length;
    const last = rows.at(-1);
    if (last === undefined) return;
    after = last.rowId;
  }
}
