/** The secrets that sign the deliveries of a webhook. They open only with its own terms. */
import { errorFields, log } from "../platform/log.ts";
import type { Config } from "../platform/config.ts";
import { WEBHOOK_SECRET_PREFIX } from "../platform/receivers.ts";
import { all, blob, readUuid, sql } from "../platform/sql.ts";
import { newestKeyId, openSecret, type Sealed, sealSecret } from "./secret-box.ts";

/** How long the secret before signs, too. */
const ROTATION_MS = 86_400_000;

/** Newest first. `endsAt`: Unix milliseconds, null for the present one. */
export type WebhookSecret = { readonly secret: string; readonly endsAt: number | null };
/** What decides who receives what. */
export type WebhookTerms = {
  readonly endpointId: string;
  readonly userId: string;
  readonly url: string;
  readonly types: string;
};
type Ring = Config["MASTER_KEYS"];

export function newWebhookSecret(): WebhookSecret {
  const bytes = Buffer.from(crypto.getRandomValues(new Uint8Array(32)));
  return { secret: WEBHOOK_SECRET_PREFIX + bytes.toString("base64"), endsAt: null };
}

/** A new secret, and the present one for another day. */
export function rotated([present]: readonly WebhookSecret[], at: number): WebhookSecret[] {
  const before = present === undefined ? [] : [{ ...present, endsAt: at + ROTATION_MS }];
  return [newWebhookSecret(), ...before];
}

export function sealWebhook(
  ring: Ring,
  secrets: readonly WebhookSecret[],
  terms: WebhookTerms,
): Promise<Sealed> {
  return sealSecret(ring, JSON.stringify(secrets), bindingOf(terms));
}

/** Throws if the row was edited. */
export async function openWebhook(
  ring: Ring,
  box: Sealed,
  terms: WebhookTerms,
): Promise<readonly WebhookSecret[]> {
  // Safe cast: what opens was sealed by `sealWebhook`.
  return JSON.parse(await openSecret(ring, box, bindingOf(terms))) as WebhookSecret[];
}

function bindingOf({ endpointId, userId, url, types }: WebhookTerms): string {
  return `webhook:${endpointId}:${userId}:${types}:${url}`;
}

type Row = Sealed & { id: string; user: string; url: string; types: string };
const PAGE = 50;

/** Seals the secrets with the newest master key. Returns the endpoints whose secrets do not open. */
export async function rewrapWebhooks(
  db: D1Database,
  ring: Ring,
): Promise<{ rewrapped: number; unreadable: readonly string[] }> {
  let rewrapped = 0;
  const unreadable: string[] = [];
  for (let after = ""; ;) {
    const rows = await all<Row>(
      db,
      sql`SELECT hex(endpoint_id) AS id, hex(user_id) AS user, url, types,
          secrets_sealed AS sealed, master_key_id AS masterKeyId
        FROM webhook_endpoints
        WHERE endpoint_id > ${blob(after)} AND master_key_id <> ${newestKeyId(ring)}
        ORDER BY endpoint_id LIMIT ${PAGE}`,
    );
    for (const row of rows) {
      const terms = { ...row, endpointId: readUuid(row.id), userId: readUuid(row.user) };
      try {
        const box = await sealWebhook(ring, await openWebhook(ring, row, terms), terms);
        await all(
          db,
          sql`UPDATE webhook_endpoints
            SET secrets_sealed = ${box.sealed}, master_key_id = ${box.masterKeyId}
            WHERE endpoint_id = ${blob(row.id)} AND secrets_sealed = ${row.sealed}`,
        );
        rewrapped += 1;
      } catch (error) {
        log("error", "rewrap_unreadable", { endpoint_id: terms.endpointId, ...errorFields(error) });
        unreadable.push(terms.endpointId);
      }
    }
    const last = rows.at(-1);
    if (last === undefined) return { rewrapped, unreadable };
    after = last.id;
  }
}
