/**
 * Requests, quotes and matches as rows and on the wire. One column list serves REST reads, stored
 * results and event bodies, so that all three agree.
 */
import { toHex } from "../assets/amount.ts";
import { readAssetKey } from "../assets/asset.ts";
import type { RequestSide, Side } from "../assets/asset-fields.ts";
import type { Venue } from "../platform/venues.ts";
import { NOW } from "../platform/commit.ts";
import { atom, type Columns, type Expr, expr, raw, readUuid, uuid } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import {
  eachText,
  QUOTE_TEXTS,
  type QuoteTexts,
  quoteTexts,
  REQUEST_TEXTS,
  type RequestTexts,
  requestTexts,
} from "./own-texts.ts";
import type { CloseReason, QuoteStatus, RequestStatus } from "./statuses.ts";

/** The audience of a row. It decides, in SQL, which columns are omitted. */
export type Audience =
  | { readonly kind: "public" }
  | { readonly kind: "user"; readonly userId: Expr };
export const PUBLIC: Audience = { kind: "public" };
export const reader = (userId: string): Audience => ({ kind: "user", userId: uuid(userId) });

export function requestColumns(audience: Audience): Columns<keyof RequestRow> {
  const owner = audience.kind === "public" ? atom("0") : expr`r.requester_id = ${audience.userId}`;
  return {
    request_id: atom("hex(r.request_id)"),
    user_id: expr`iif(r.disclosed = 1 OR ${owner}, hex(r.requester_id), NULL)`,
    asset: atom("r.asset"),
    amount: atom("r.amount"),
    usdc_amount: atom("CAST(r.usdc_amount AS TEXT)"),
    side: atom("r.side"),
    status: expr`iif(r.status = 'open' AND r.expires_at <= ${NOW}, 'expired', r.status)`,
    disclosed: atom("r.disclosed"),
    opened_at: atom("r.opened_at"),
    expires_at: atom("r.expires_at"),
    owned: owner,
    ...eachText(REQUEST_TEXTS, (name) => expr`iif(${owner}, ${raw(`r.${name}`)}, NULL)`),
    best_bid: bestPrice(owner, "Bid"),
    best_ask: bestPrice(owner, "Ask"),
    quote_count: expr`iif(${owner}, (SELECT count(*) FROM quotes b
      WHERE b.request_id = r.request_id AND b.status = 'open' AND b.expires_at > ${NOW}), 0)`,
  };
}

/** The requester buys at the lowest Bid and sells at the highest Ask. Only they see the prices. */
function bestPrice(owner: Expr, side: Side): Expr {
  return expr`iif(${owner} AND r.side IN (${side}, 'TwoWay'),
    (SELECT ${side === "Bid" ? atom("min(b.price)") : atom("max(b.price)")} FROM quotes b
      WHERE b.request_id = r.request_id AND b.side = ${side} AND b.status = 'open'
        AND b.expires_at > ${NOW}), NULL)`;
}

/** A request when it is opened, before it can have quotes. */
export function newRequestColumns(audience: Audience): Columns<keyof RequestRow> {
  return {
    ...requestColumns(audience),
    status: atom("'open'"),
    best_bid: atom("NULL"),
    best_ask: atom("NULL"),
    quote_count: atom("0"),
  };
}

/** Rows are also stored as JSON: ids are hex, amounts decimal text, and flags 0 or 1. */
export type RequestRow = RequestTexts & {
  readonly request_id: string;
  readonly user_id: string | null;
  readonly asset: string;
  readonly amount: string | null;
  readonly usdc_amount: string | null;
  readonly side: RequestSide;
  readonly status: RequestStatus;
  readonly disclosed: number;
  readonly opened_at: number;
  readonly expires_at: number;
  readonly owned: number;
  readonly best_bid: number | null;
  readonly best_ask: number | null;
  readonly quote_count: number;
};

export function requestView(row: RequestRow) {
  return {
    request_id: readUuid(row.request_id),
    user_id: row.user_id === null ? null : readUuid(row.user_id),
    ...assetView(row.asset),
    ...(row.amount === null ? {} : { amount: toHex(BigInt(row.amount)) }),
    ...(row.usdc_amount === null ? {} : { usdc_amount: toHex(BigInt(row.usdc_amount)) }),
    side: row.side,
    status: row.status,
    disclose_identity: row.disclosed === 1,
    ...requestTexts(row),
    created_at: toWireTime(row.opened_at),
    expires_at: toWireTime(row.expires_at),
    ...(row.owned === 1 ? { ...bestPrices(row), quote_count: row.quote_count } : {}),
  };
}

function bestPrices({ side, best_bid: Bid, best_ask: Ask }: RequestRow) {
  return side === "TwoWay"
    ? { best_price: null, best_prices: { Bid, Ask } }
    : { best_price: side === "Bid" ? Bid : Ask };
}

/** Who reads a quote. Only its maker and the requester do. */
type QuoteReader = "maker" | "requester";

/**
 * `fee` is the reader's own fee. The requester does not see what would show the maker's state: what
 * they set aside, why they were cancelled, and which quote replaced which.
 */
export function quoteColumns(reads: QuoteReader): Columns<keyof QuoteRow> {
  const status = expr`iif(q.status = 'open' AND q.expires_at <= ${NOW}, 'expired', q.status)`;
  const ended = expr`nullif(${status}, 'open')`;
  return {
    quote_id: atom("hex(q.quote_id)"),
    request_id: atom("hex(q.request_id)"),
    asset: atom("q.asset"),
    amount: atom("q.amount"),
    side: atom("q.side"),
    price: atom("q.price"),
    usdc_amount: atom("CAST(q.usdc_amount AS TEXT)"),
    fee: atom(`CAST(q.${reads === "maker" ? "maker_fee" : "taker_fee"} AS TEXT)`),
    status,
    opened_at: atom("q.opened_at"),
    expires_at: atom("q.expires_at"),
    ...(reads === "maker"
      ? {
          reserve: atom("CAST(q.reserve AS TEXT)"),
          ...eachText(QUOTE_TEXTS, (name) => atom(`q.${name}`)),
          close_reason: expr`coalesce(q.close_reason, ${ended})`,
          replaced_by: REPLACED_BY,
        }
      : {
          reserve: atom("NULL"),
          ...eachText(QUOTE_TEXTS, () => atom("NULL")),
          close_reason: ended,
          replaced_by: atom("NULL"),
        }),
  };
}

/** SQLite's hex() turns NULL into an empty text. */
export const REPLACED_BY = atom("nullif(hex(q.replaced_by), '')");

/** A quote when it is placed. */
export function newQuoteColumns(reads: QuoteReader): Columns<keyof QuoteRow> {
  return {
    ...quoteColumns(reads),
    status: atom("'open'"),
    close_reason: atom("NULL"),
    replaced_by: atom("NULL"),
  };
}

export type QuoteRow = QuoteTexts & {
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
  readonly reserve: string | null;
  readonly close_reason: CloseReason | null;
  readonly replaced_by: string | null;
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
    reserve: row.reserve === null ? null : reserveView(row, row.reserve),
    ...quoteTexts(row),
    status: row.status,
    close_reason: row.close_reason,
    replaced_by: row.replaced_by === null ? null : readUuid(row.replaced_by),
    created_at: toWireTime(row.opened_at),
    expires_at: toWireTime(row.expires_at),
  };
}

/** What the maker set aside: the asset for a Bid, USDC for an Ask. */
function reserveView({ side, asset }: QuoteRow, reserve: string) {
  const usdc = { venue_id: null, asset_id: null };
  return { ...(side === "Bid" ? assetView(asset) : usdc), amount: toHex(BigInt(reserve)) };
}

export function matchColumns(userId: Expr): Columns<keyof MatchRow> {
  return {
    ...TRADE,
    request_id: atom("hex(m.request_id)"),
    quote_id: atom("hex(m.quote_id)"),
    fee: expr`CAST(iif(m.maker_id = ${userId}, m.maker_fee, m.taker_fee) AS TEXT)`,
    role: expr`iif(m.maker_id = ${userId}, 'maker', 'requester')`,
    label: expr`iif(m.maker_id = ${userId}, m.maker_label, m.requester_label)`,
  };
}

export type MatchRow = TradeRow & {
  readonly request_id: string;
  readonly quote_id: string;
  readonly fee: string;
  readonly role: "requester" | "maker";
  readonly label: string | null;
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
    label: row.label,
    status: "settled" as const,
    created_at: toWireTime(row.at),
  };
}

/** A trade of the tape: a match without its parties and fees. */
export const TRADE: Columns<keyof TradeRow> = {
  match_id: atom("hex(m.match_id)"),
  asset: atom("m.asset"),
  side: atom("m.side"),
  amount: atom("CAST(m.amount AS TEXT)"),
  price: atom("m.price"),
  usdc_amount: atom("CAST(m.usdc_amount AS TEXT)"),
  at: atom("m.at"),
};

export type TradeRow = {
  readonly match_id: string;
  readonly asset: string;
  readonly side: Side;
  readonly amount: string;
  readonly price: number;
  readonly usdc_amount: string;
  readonly at: number;
};

export function tradeView(row: TradeRow) {
  return {
    match_id: readUuid(row.match_id),
    ...assetView(row.asset),
    side: row.side,
    amount: toHex(BigInt(row.amount)),
    price: row.price,
    usdc_amount: toHex(BigInt(row.usdc_amount)),
    created_at: toWireTime(row.at),
  };
}

export function assetView(key: string): { venue_id: Venue; asset_id: string } {
  const token = readAssetKey(key);
  if (token === null) throw new Error("USDC is not traded by RFQ");
  return { venue_id: token.venue, asset_id: token.assetId };
}
