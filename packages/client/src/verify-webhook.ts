/** Webhooks whose signature is verified. Needs the package `standardwebhooks`. */
import { Webhook } from "standardwebhooks";
import { decodeEvent, type WebhookEvent } from "./stream-messages.ts";

/** Headers of a delivery, as `fetch` or Node has them. */
type DeliveryHeaders = Headers | Readonly<Record<string, string | string[] | undefined>>;

/**
 * Returns the event of a delivery if its signature is right and it is at most five minutes old.
 * `secret` is that of `createWebhook` or `rotateWebhookSecret`. `body` is what arrived, not parsed.
 * Throws the `WebhookVerificationError` of `standardwebhooks` otherwise. Answer it with 400.
 *
 * @example
 * ```ts
 * const onDelivery = async (delivery: Request, secret: string) => {
 *   const event = verifyWebhook(secret, await delivery.text(), delivery.headers);
 *   if (event.type === "match.created") console.log(event.data.usdc_amount);
 *   return new Response(null, { status: 204 });
 * };
 * ```
 */
export function verifyWebhook(
  secret: string,
  body: string | Uint8Array,
  headers: DeliveryHeaders,
): WebhookEvent {
  const given = headers instanceof Headers ? Object.fromEntries(headers) : headers;
  const pairs = Object.entries(given).map(([name, value]) => [name.toLowerCase(), String(value)]);
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  new Webhook(secret).verify(text, Object.fromEntries(pairs));
  // The service sends nothing else to webhooks.
  return decodeEvent(text) as WebhookEvent;
}
