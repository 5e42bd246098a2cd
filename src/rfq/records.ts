/**
 * Requests, quotes and matches as rows and on the wire. One column list serves REST reads, idempotent results and event
 * bodies, so that all three say the same.
 */
import { toHex } from "../assets/amount.ts";
import { readAssetKey } from "../assets/asset.ts";
import type { Venue } from "../platform/venues.ts";
import type { Side } from "../assets/fields.ts";
import { NOW } from "../platform/commit.ts";
import { join, raw, readUuid, type Sql, sql, uuid } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";

export type RequestStatus = "open" | "matched" | "cancelled" | "expired";
export type QuoteStatus = "open" | "accepted" | "cancelled" | "expired" | "rejected";

/** SQL expressions by output name; `select` and `jsonObject` turn them into a column list or an event body. */
export type Columns = Readonly<Record<string, Sql>>;

export function select(columns: Columns): Sql {
  return join(
    Object.entries(columns).map(([name, expression]) => sql`${expression} AS ${raw(name)}`),
    ", ",
  );
}

export function jsonObject(columns: Columns): Sql {
  return sql`json_object(${join(
    Object.entries(columns).map(([name, expression]) => sql`${raw(`'${name}'`)}, ${expression}`),
    ", ",
  )})`;
}

/** Who will read the row: decides what is left out of it, in SQL, before it goes anywhere. */
export type Audience =
  | { readonly kind: "public" }
  | { readonly kind: "user"; readonly userId: Sql };
export const PUBLIC: Audience = { kind: "public" };
export const reader = (userId: string): Audience => ({ kind: "user", userId: uuid(userId) });

export function requestColumns(audience: Audience): Columns {
  const owner = audience.kind === "public" ? raw("0") : sql`r.requester_id = ${audience.userId}`;
  return {
    request_id: raw("hex(r.request_id)"),
    user_id: sql`iif(r.disclosed = 1 OR ${owner}, hex(r.requester_id), NULL)`,
    asset: raw("r.asset"),
    amount: raw("r.amount"),
    side: raw("r.side"),
    status: sql`iif(r.status = 'open' AND r.expires_at <= ${NOW}, 'expired', r.status)`,
    disclosed: raw("r.disclosed"),
    opened_at: raw("r.opened_at"),
    expires_at: raw("r.expires_at"),
    owned: owner,
    best_price: sql`iif(${owner}, (SELECT iif(r.side = 'Bid', min(b.price), max(b.price)) FROM quotes b
      WHERE b.request_id = r.request_id AND b.status = 'open' AND b.expires_at > ${NOW}), NULL)`,
    quote_count: sql`iif(${owner}, (SELECT count(*) FROM quotes b
      WHERE b.request_id = r.request_id AND b.status = 'open' AND b.expires_at > ${NOW}), 0)`,
  };
}

/** A request at the moment it was opened, when it can have no quotes yet. */
export function newRequestColumns(audience: Audience): Columns {
  return {
    ...requestColumns(audience),
    status: raw("'open'"),
    best_price: raw("NULL"),
    quote_count: raw("0"),
  };
}

export type RequestRow = {
  readonly request_id: string;
  readonly user_id: string | null;
  readonly asset: string;
  readonly amount: string;
  readonly side: Side;
  readonly status: RequestStatus;
  readonly disclosed: number;
  readonly opened_at: number;
  readonly expires_at: number;
  readonly owned: number;
  readonly best_price: number | null;
  readonly quote_count: number;
};

export function requestView(row: RequestRow) {
  return {
    request_id: readUuid(row.request_id),
    user_id: row.user_id === null ? null : readUuid(row.user_id),
    ...assetView(row.asset),
    amount: toHex(BigInt(row.amount)),
    side: row.side,
    status: row.status,
    disclose_identity: row.disclosed === 1,
    created_at: toWireTime(row.opened_at),
    expires_at: toWireTime(row.expires_at),
    ...(row.owned === 1 ? { best_price: row.best_price, quote_count: row.quote_count } : {}),
  };
}

/** `fee` is the reader's own: the maker's for its maker, the taker's for the requester. Nobody else reads quotes. */
export function quoteColumns(fee: "maker_fee" | "taker_fee"): Columns {
  return {
    quote_id: raw("hex(q.quote_id)"),
    request_id: raw("hex(q.request_id)"),
    asset: raw("q.asset"),
    amount: raw("q.amount"),
    side: raw("q.side"),
    price: raw("q.price"),
    usdc_amount: raw("CAST(q.usdc_amount AS TEXT)"),
    fee: raw(`CAST(q.${fee} AS TEXT)`),
    status: sql`iif(q.status = 'open' AND q.expires_at <= ${NOW}, 'expired', q.status)`,
    opened_at: raw("q.opened_at"),
    expires_at: raw("q.expires_at"),
  };
}

/** A quote at the moment it was placed. */
export function newQuoteColumns(fee: "maker_fee" | "taker_fee"): Columns {
  return { ...quoteColumns(fee), status: raw("'open'") };
}

export type QuoteRow = {
  readonly quote_id: string;
  readonly request_id: string;
  readonly asset: string;
  readonly amount: string;
  readonly side: Side;
  readonly price: number;
  readonly usdc_amount: string;
  readonly fee: string;
  readonly status: QuoteStatus;
  readonly opened_at: number;
  readonly expires_at: number;
};

export function quoteView(row: QuoteRow) {
  return {
    quote_id: readUuid(row.quote_id),
    request_id: readUuid(row.request_id),
    ...assetView(row.asset),
    amount: toHex(BigInt(row.amount)),
    side: row.side,
    price: row.price,
    usdc_amount: toHex(BigInt(row.usdc_amount)),
    fee: toHex(BigInt(row.fee)),
    status: row.status,
    created_at: toWireTime(row.opened_at),
    expires_at: toWireTime(row.expires_at),
  };
}

export function matchColumns(userId: Sql): Columns {
  return {
    match_id: raw("hex(m.match_id)"),
    request_id: raw("hex(m.request_id)"),
    quote_id: raw("hex(m.quote_id)"),
    asset: raw("m.asset"),
    side: raw("m.side"),
    amount: raw("CAST(m.amount AS TEXT)"),
    price: raw("m.price"),
    usdc_amount: raw("CAST(m.usdc_amount AS TEXT)"),
    fee: sql`CAST(iif(m.maker_id = ${userId}, m.maker_fee, m.taker_fee) AS TEXT)`,
    role: sql`iif(m.maker_id = ${userId}, 'maker', 'requester')`,
    at: raw("m.at"),
  };
}

export type MatchRow = {
  readonly match_id: string;
  readonly request_id: string;
  readonly quote_id: string;
  readonly asset: string;
  readonly side: Side;
  readonly amount: string;
  readonly price: number;
  readonly usdc_amount: string;
  readonly fee: string;
  readonly role: "requester" | "maker";
  readonly at: number;
};

export function matchView(row: MatchRow) {
  return {
    match_id: readUuid(row.match_id),
    request_id: readUuid(row.request_id),
    quote_id: readUuid(row.quote_id),
    ...assetView(row.asset),
    side: row.side,
    amount: toHex(BigInt(row.amount)),
    price: row.price,
    usdc_amount: toHex(BigInt(row.usdc_amount)),
    fee: toHex(BigInt(row.fee)),
    role: row.role,
    status: "settled" as const,
    created_at: toWireTime(row.at),
  };
}

function assetView(key: string): { venue_id: Venue; asset_id: string } {
  const token = readAssetKey(key);
  if (token === null) throw new Error("USDC is not traded by RFQ");
  return { venue_id: token.venue, asset_id: token.assetId };
}
