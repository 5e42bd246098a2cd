/**
 * Signs what leaves the service: Standard Webhooks v1, with a symmetric secret that each receiver
 * has of its own, so that no receiver can write to another one.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
import { createHmac } from "node:crypto";
import { WEBHOOK_SECRET_PREFIX } from "../platform/receivers.ts";

/**
 * `id` names the message and stays the same when it is sent again, `at` is the attempt in Unix
 * milliseconds. Each secret signs, so a receiver may change to the newer one at any time.
 */
export function signedHeaders(
  secrets: readonly string[],
  { id, at, body }: { id: string; at: number; body: string },
): Record<string, string> {
  const timestamp = String(Math.floor(at / 1_000));
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(WEBHOOK_SECRET_PREFIX.length), "base64");
    const mac = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`);
    return `v1,${mac.digest("base64")}`;
  });
  return {
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": signatures.join(" "),
  };
}
