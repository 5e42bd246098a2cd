/** The forms of settings about receivers of what the service sends. */
import * as z from "zod";

export const WEBHOOK_SECRET_PREFIX = "whsec_";

/** Secrets of Standard Webhooks v1, newest first. With two, each message carries both signatures. */
export const WebhookSecrets = z
  .array(
    z
      .string()
      .refine(
        (secret) => /^whsec_[A-Za-z0-9+/]{32,86}={0,2}$/.test(secret),
        "must be whsec_ and 24 to 64 Base64 bytes",
      ),
  )
  .max(2);

/** Empty, or {} as a secret: nobody. */
export const receiverUrl = z
  .string()
  .transform((url) => (url === "{}" ? "" : url))
  .refine(
    (url) => url === "" || (URL.canParse(url) && isProtected(new URL(url))),
    "must be an https URL",
  )
  .default("");

/** What is sent there cannot be read on its way. */
export function isProtected({ protocol, hostname }: URL): boolean {
  return protocol === "https:" || hostname === "127.0.0.1" || hostname === "localhost";
}
