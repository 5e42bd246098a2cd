/** The secrets that sign the deliveries of a webhook. They open only with its own terms. */
import type { Config } from "../platform/config.ts";
import { WEBHOOK_SECRET_PREFIX } from "../platform/receivers.ts";
import { openSecret, type Sealed, sealSecret } from "./secret-box.ts";

/** Why an endpoint gets nothing any more. */
export const WEBHOOK_ENDS = ["gone", "late", "full", "events_gone", "revoked"] as const;

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
  return sealSecret(ring, JSON.stringify(secrets), bindingOfWebhook(terms));
}

/** Throws if the row was edited. */
export async function openWebhook(
  ring: Ring,
  box: Sealed,
  terms: WebhookTerms,
): Promise<readonly WebhookSecret[]> {
  // Safe cast: what opens was sealed by `sealWebhook`.
  return JSON.parse(await openSecret(ring, box, bindingOfWebhook(terms))) as WebhookSecret[];
}

export function bindingOfWebhook({ endpointId, userId, url, types }: WebhookTerms): string {
  return `webhook:${endpointId}:${userId}:${types}:${url}`;
}
