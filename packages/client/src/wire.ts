/** How requests and amounts are encoded, and responses decoded. */

/**
 * Names of the fields that hold an amount, in any record. On the wire an amount is `0x` hex, or
 * signed decimal in the ledger.
 */
export const AMOUNT_FIELDS: ReadonlySet<string> = new Set([
  "amount",
  "balance",
  "pending_balance",
  "promised",
  "usdc_amount",
  "fee",
  "delta",
  "balance_after",
  "max_usdc",
  "max_usdc_per_trade",
  "max_usdc_per_day",
  "used",
  "max_trade_usdc_per_day",
  "withdraw_max_usdc_per_day",
  "withdraw_approval_above",
  "trade_usdc",
  "withdraw_usdc",
  "bought",
  "spent",
  "sold",
  "received",
  "realized",
  "value",
  "min_deposit",
  "min_request",
  "min_priced_trade",
  "min_withdrawal",
  "max_withdrawal",
  "withdrawable",
  "issued",
  "total",
  "fees",
  "losses",
  "pairs",
  "issued_by_pairs",
  "settling",
  "held",
  "sum",
]);

const AMOUNT = /^(?:0x[0-9a-f]+|-?\d+)$/;

/** Parses a response. Amounts become `bigint`s. */
export function decode(text: string): unknown {
  return JSON.parse(text, (key, value: unknown) =>
    typeof value === "string" && AMOUNT_FIELDS.has(key) && AMOUNT.test(value)
      ? BigInt(value)
      : value,
  );
}

/**
 * Returns only the named fields of a record, without those that are null. A whole record is
 * assignable to a type with some of its fields, but the service rejects unknown fields. `names`
 * must name every field of the type.
 */
export function pick<T extends object>(record: T, names: Record<keyof T, true>): Partial<T> {
  const known: Partial<T> = {};
  for (const name in names)
    if (record[name] !== undefined && record[name] !== null) known[name] = record[name];
  return known;
}

/** As `pick`, but keeps null, for fields whose null has a meaning. */
export function pickWithNull<T extends object>(
  record: T,
  names: Record<keyof T, true>,
): Partial<T> {
  const known: Partial<T> = {};
  for (const name in names) if (record[name] !== undefined) known[name] = record[name];
  return known;
}

/** Encodes a body as JSON. `bigint`s become decimal strings and undefined fields are omitted. */
export function encode(body: object): Uint8Array<ArrayBuffer> {
  const text = JSON.stringify(body, (_key, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );
  // A copy, because runtimes declare different types for the result of TextEncoder.
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
 * Returns path and query in a form that neither `fetch` nor Cloudflare rewrites, so that the signed
 * target is the one that arrives. URL parsers escape `'`, so it is escaped here. Lists are joined
 * with commas.
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
