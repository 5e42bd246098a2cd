/** Seals the secrets of API keys and of TOTP with the newest master key, so that older ones can be removed. */
import { and, gt, ne } from "drizzle-orm";
import type { Config } from "../platform/config.ts";
import { commitOrThrow, newGroup } from "../platform/commit.ts";
import { errorFields, log } from "../platform/log.ts";
import { type Sql, sql, uuid } from "../platform/sql.ts";
import { commitAudited } from "./audit.ts";
import { keyBinding, newestKeyId, openSecret, sealSecret } from "./secret-box.ts";
import { rewrapTotp } from "./totp-secret.ts";
import { apiKeys } from "./tables.ts";
import { read } from "../platform/read.ts";

const PAGE = 50;

/**
 * Returns the number of rewrapped secrets, the keys whose secret cannot be opened, and the users
 * whose TOTP secret cannot. Safe to repeat and during operation, because an update applies only if the sealed secret has not changed.
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
    const rows = await read(db, ({ select }) =>
      select(SEALED)
        .from(apiKeys)
        .where(and(ne(apiKeys.masterKeyId, newest), gt(apiKeys.apiKeyId, after)))
        .orderBy(apiKeys.apiKeyId)
        .limit(PAGE),
    );
    if (rows.length === 0) break;
    const results = await Promise.all(rows.map((row) => reseal(settings.MASTER_KEYS, row)));
    const updates = results.filter((update) => update !== undefined);
    await commitOrThrow(db, newGroup(), updates);
    rewrapped += updates.length;
    rows.forEach((row, index) => {
      if (results[index] === undefined) unreadable.push(row.apiKeyId);
    });
    after = rows.at(-1)?.apiKeyId ?? after;
  }
  const totp = await rewrapTotp(db, settings.MASTER_KEYS);
  rewrapped += totp.rewrapped;
  unreadable.push(...totp.unreadable);
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

const SEALED = {
  apiKeyId: apiKeys.apiKeyId,
  userId: apiKeys.userId,
  secretSealed: apiKeys.secretSealed,
  masterKeyId: apiKeys.masterKeyId,
};
type SealedRow = Pick<typeof apiKeys.$inferSelect, keyof typeof SEALED>;

/**
 * The update of one row. Undefined if no master key opens it; the other rows are rewrapped all the
 * same, and the result names this one.
 */
async function reseal(ring: Config["MASTER_KEYS"], row: SealedRow): Promise<Sql | undefined> {
  const { secretSealed: sealed, masterKeyId, ...owner } = row;
  try {
    const secret = await openSecret(ring, { sealed, masterKeyId }, keyBinding(owner));
    const box = await sealSecret(ring, secret, keyBinding(owner));
    return sql`UPDATE api_keys SET secret_sealed = ${box.sealed}, master_key_id = ${box.masterKeyId}
      WHERE api_key_id = ${uuid(owner.apiKeyId)} AND secret_sealed = ${sealed}`;
  } catch (error) {
    log("error", "rewrap_unreadable", { api_key_id: owner.apiKeyId, ...errorFields(error) });
    return undefined;
  }
}
