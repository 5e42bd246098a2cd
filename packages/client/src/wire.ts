/** The two ways an amount is written on the wire, and the bytes that a request carries. */

/** Fields that hold an amount, wherever they occur: `0x…` hex, or signed decimal in the ledger. */
export const AMOUNT_FIELDS: ReadonlySet<string> = new Set([
  "amount",
  "balance",
  "pending_balance",
  "usdc_amount",
  "fee",
  "delta",
  "balance_after",
]);

const AMOUNT = /^(?:0x[0-9a-f]+|-?\d+)$/;

/** An answer with its amounts as bigints. */
export function decode(text: string): unknown {
  return JSON.parse(text, (key, value: unknown) =>
    typeof value === "string" && AMOUNT_FIELDS.has(key) && AMOUNT.test(value)
      ? BigInt(value)
      : value,
  );
}

/**
 * The fields that a call knows, and no others: a whole record fits a type that asks for some of its fields, but the service
 * refuses what it does not know. Taking every name keeps the list complete.
 */
export function only<T extends object>(record: T, names: Record<keyof T, true>): Partial<T> {
  const known: Partial<T> = {};
  for (const name in names) if (record[name] !== undefined) known[name] = record[name];
  return known;
}

/** A body with bigints as decimal strings, and without the fields that are undefined. */
export function encode(body: object): Uint8Array<ArrayBuffer> {
  const text = JSON.stringify(body, (_key, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );
  // Runtimes disagree about the declared type of encoded bytes; a copy has one that all of them send.
  return new Uint8Array(new TextEncoder().encode(text));
}

export type QueryValue =
  | string
  | number
  | bigint
  | boolean
  | Date
  | readonly string[]
  | null
  | undefined;

/**
 * Path and query in the form that neither `fetch` nor Cloudflare rewrites on the way: what is signed is what arrives.
 * `'` is escaped because URL parsers do it, and lists are joined with commas.
 */
export function targetOf(path: string, query: Record<string, QueryValue> = {}): string {
  const pairs = Object.entries(query).flatMap(([name, value]) => {
    if (value === undefined || value === null) return [];
    const text =
      value instanceof Date
        ? value.toISOString()
        : Array.isArray(value)
          ? value.join(",")
          : String(value);
    return [`${escape(name)}=${escape(text)}`];
  });
  return pairs.length === 0 ? path : `${path}?${pairs.join("&")}`;
}

function escape(text: string): string {
  return encodeURIComponent(text).replaceAll("'", "%27");
}
