/** Where deliveries may go: hosts of the public internet, by name. */
import { textField } from "../../http/fields.ts";

const MAX_URL_CHARS = 512;
/** Names that only a local network resolves (RFC 6761, 6762, 8375, 9476) and those of DNS itself. */
const LOCAL_NAME =
  /(^|\.)(localhost|local|internal|intranet|lan|home|corp|private|onion|alt|arpa)$/;
const LOOPBACK = /^http:\/\/(127\.0\.0\.1|localhost)(:\d+)?\//;

/**
 * Undefined if it is not allowed. The runtime connects to public addresses only
 * (`global_fetch_strictly_public`), so a name that resolves to another one is not reached.
 */
export function webhookUrl(text: string): string | undefined {
  if (text.length > MAX_URL_CHARS || !URL.canParse(text)) return undefined;
  const { protocol, hostname, port, username, password, hash, href } = new URL(text);
  const host = hostname.replace(/\.$/, "");
  // URL writes every form of an IPv4 address as four numbers, and IPv6 in brackets.
  const isName = /^([a-z0-9-]{1,63}\.)+[a-z][a-z0-9-]{0,62}$/.test(host) && !LOCAL_NAME.test(host);
  const isPlain = username === "" && password === "" && hash === "" && !text.includes("#");
  return protocol === "https:" && port === "" && isName && isPlain ? href : undefined;
}

/** Whether a delivery may go there. `WEBHOOK_LOOPBACK` allows loopback addresses, too. */
export function isAllowed(settings: { WEBHOOK_LOOPBACK: "on" | "off" }, url: string): boolean {
  return (
    webhookUrl(url) !== undefined || (settings.WEBHOOK_LOOPBACK === "on" && LOOPBACK.test(url))
  );
}

export const webhookUrlField = textField(
  (text) => webhookUrl(text) ?? (LOOPBACK.test(text) && URL.canParse(text) ? text : undefined),
  "must be an https URL on port 443 whose host is a public name",
  {
    type: "string",
    format: "uri",
    maxLength: MAX_URL_CHARS,
    description: "An https URL on port 443. Its host is a public name, no IP address",
    examples: ["https://hooks.example.com/rfq"],
  },
);
