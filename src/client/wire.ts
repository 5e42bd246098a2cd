/** The two ways an amount is written on the wire, and the bytes that a request carries. */

/** Fields that hold an amount, wherever they occur: `0x…` hex, except the ledger's signed decimals. */
const AMOUNT_FIELDS = new Set(["amount", "balance", "pending_balance", "usdc_amount", "fee", "delta", "balance_after"]);

/** An answer with its amounts as bigints. */
export function decode(text: string): unknown {
  return JSON.parse(text, (key, value: unknown) => (typeof value === "string" && AMOUNT_FIELDS.has(key) ? BigInt(value) : value));
}

/** A body with bigints as decimal strings, and without the fields that are undefined. */
export function encode(body: object): ReturnType<TextEncoder["encode"]> {
  const text = JSON.stringify(body, (_key, value: unknown) => (typeof value === "bigint" ? String(value) : value));
  return new TextEncoder().encode(text);
}

export type QueryValue = string | number | bigint | boolean | Date | readonly string[] | null | undefined;

/**
 * Path and query in the form that neither `fetch` nor Cloudflare rewrites on the way: what is signed is what arrives.
 * `'` is escaped because URL parsers do it, and lists are joined with commas.
 */
export function targetOf(path: string, query: Record<string, QueryValue> = {}): string {
  const pairs = Object.entries(query).flatMap(([name, value]) => {
    if (value === undefined || value === null) return [];
    const text = value instanceof Date ? value.toISOString() : Array.isArray(value) ? value.join(",") : String(value);
    return [`${escape(name)}=${escape(text)}`];
  });
  return pairs.length === 0 ? path : `${path}?${pairs.join("&")}`;
}

function escape(text: string): string {
  return encodeURIComponent(text).replaceAll("'", "%27");
}
