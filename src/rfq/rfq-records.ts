/** Records as rows and on the wire. One column list serves reads, stored results and events. */
import { toHex } from "../assets/amount.ts";
import { readAssetKey, USDC } from "../assets/asset.ts";
import type { RequestSide, Side } from "../assets/asset-fields.ts";
import type { Venue } from "../platform/venues.ts";
import { NOW } from "../platform/commit.ts";
import {
  atom,
  type Columns,
  type Expr,
  expr,
  raw,
  readUuid,
  type RowOf,
  type Typed,
  typed,
  uuid,
} from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import type { CloseReason, QuoteStatus, RequestStatus } from "./statuses.ts";

/** The audience of a row. It decides, in SQL, which columns are omitted. */
export type Audience =
  | { readonly kind: "public" }
  | { readonly kind: "user"; readonly userId: Expr };
export const PUBLIC_AUDIENCE: Audience = { kind: "public" };
export const reader = (userId: string): Audience => ({ kind: "user", userId: uuid(userId) });

/** A row crosses Durable Object calls, of which one side may lack a new column. */
type Optional<Row, Name extends keyof Row> = Omit<Row, Name> & Partial<Pick<Row, Name>>;

/** Rows are also stored as JSON: ids are hex, amounts decimal text, and flags 0 or 1. */
export function requestColumns(audience: Audience) {
  const owner: Typed<number> =
    audience.kind === "public" ? atom("0") : expr`r.requester_id = ${audience.userId}`;
  const userId: Typed<string | null> = expr`iif(r.disclosed = 1 OR ${owner},
    hex(r.requester_id), NULL)`;
  const status: Typed<RequestStatus> = expr`iif(r.status = 'open' AND r.expires_at <= ${NOW},
    'expired', r.status)`;
  const label: Typed<string | null> = expr`iif(${owner}, r.label, NULL)`;
  const quoteCount: Typed<number> = expr`iif(${owner}, (SELECT count(*) FROM quotes b
    WHERE b.request_id = r.request_id AND b.status = 'open' AND b.expires_at > ${NOW}), 0)`;
  return {
    request_id: typed<string>("hex(r.request_id)"),
    user_id: userId,
    asset: typed<string>("r.asset"),
    amount: typed<string | null>("r.amount"),
    usdc_amount: typed<string | null>("CAST(r.usdc_amount AS TEXT)"),
    side: typed<RequestSide>("r.side"),
    status,
    disclosed: typed<number>("r.disclosed"),
    opened_at: typed<number>("r.opened_at"),
    expires_at: typed<number>("r.expires_at"),
    owned: owner,
    label,
    accept: acceptOf(owner),
    best_bid: bestPrice(owner, "Bid"),
    best_ask: bestPrice(owner, "Ask"),
    quote_count: quoteCount,
  };
}

export type RequestRow = Optional<RowOf<ReturnType<typeof requestColumns>>, "accept" | "label">;

/** The price and the side of the standing accept, as JSON text. Only the requester sees it. */
function acceptOf(owner: Expr): Typed<string | null> {
  return expr`iif(${owner}, (SELECT json_array(a.price, a.side) || '' FROM standing_accepts a
    WHERE a.request_id = r.request_id AND a.price IS NOT NULL), NULL)`;
}

/** The requester buys at the lowest Bid and sells at the highest Ask. Only they see the prices. */
function bestPrice(owner: Expr, side: Side): Typed<number | null> {
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
    label: row.label ?? null,
    created_at: toWireTime(row.opened_at),
    expires_at: toWireTime(row.expires_at),
    ...(row.owned === 1
      ? { ...acceptPrice(row), ...bestPrices(row), quote_count: row.quote_count }
      : {}),
  };
}

function acceptPrice({ accept }: RequestRow) {
  // Safe cast: `acceptOf` builds the array.
  const [price, side] = JSON.parse(accept ?? "[null,null]") as [number | null, Side | null];
  return { accept_price: price, accept_side: side };
}

function bestPrices({ side, best_bid: Bid, best_ask: Ask }: RequestRow) {
  return side === "TwoWay"
    ? { best_price: null, best_prices: { Bid, Ask } }
    : { best_price: side === "Bid" ? Bid : Ask };
}

/** Who reads a quote. Only its maker and the requester do. */
type QuoteReader = "maker" | "requester";

/** `fee` is the reader's own. The requester does not see what would show the maker's state. */
export function quoteColumns(reads: QuoteReader) {
  const status: Typed<QuoteStatus> = expr`iif(q.status = 'open' AND q.expires_at <= ${NOW},
    'expired', q.status)`;
  const ended = expr`nullif(${status}, 'open')`;
  const isMaker = reads === "maker";
  const closeReason: Typed<CloseReason | null> = isMaker
    ? expr`coalesce(q.close_reason, ${ended})`
    : ended;
  const ofMaker = (column: string) => typed<string | null>(isMaker ? column : "NULL");
  return {
    quote_id: typed<string>("hex(q.quote_id)"),
    request_id: typed<string>("hex(q.request_id)"),
    asset: typed<string>("q.asset"),
    amount: typed<string>("q.amount"),
    side: typed<Side>("q.side"),
    price: typed<number>("q.price"),
    usdc_amount: typed<string>("CAST(q.usdc_amount AS TEXT)"),
    fee: typed<string>(`CAST(q.${isMaker ? "maker_fee" : "taker_fee"} AS TEXT)`),
    status,
    opened_at: typed<number>("q.opened_at"),
    expires_at: typed<number>("q.expires_at"),
    reserve: ofMaker("CAST(q.reserve AS TEXT)"),
    label: ofMaker("q.label"),
    close_reason: closeReason,
    replaced_by: ofMaker(REPLACED_BY.text),
    complement: ofMaker("q.complement"),
  };
}

/** `match`: of the maker's command, if its own commit accepted the quote. */
export type QuoteRow = Optional<RowOf<ReturnType<typeof quoteColumns>>, "label" | "complement"> & {
  readonly match?: MatchRow;
};

/** SQLite's hex() turns NULL into an empty text. */
export const REPLACED_BY = atom("nullif(hex(q.replaced_by), '')");

/** A quote when it is placed. */
export function newQuoteColumns(reads: QuoteReader): Columns<Exclude<keyof QuoteRow, "match">> {
  return {
    ...quoteColumns(reads),
    status: atom("'open'"),
    close_reason: atom("NULL"),
    replaced_by: atom("NULL"),
  };
}

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
    label: row.label ?? null,
    status: row.status,
    close_reason: row.close_reason,
    replaced_by: row.replaced_by === null ? null : readUuid(row.replaced_by),
    created_at: toWireTime(row.opened_at),
    expires_at: toWireTime(row.expires_at),
    ...(row.match === undefined ? {} : { match: matchView(row.match) }),
  };
}

/** What the maker set aside: the asset for a Bid, USDC for an Ask, or what backs it instead. */
function reserveView({ side, asset, complement = null }: QuoteRow, reserve: string) {
  const usdc = { venue_id: null, asset_id: null };
  const token = (side === "Bid") === (complement === null) ? (complement ?? asset) : null;
  return { ...(token === null ? usdc : assetView(token)), amount: toHex(BigInt(reserve)) };
}

export function matchColumns(userId: Expr) {
  const ofReader = <Value>(ofMaker: string, ofRequester: string): Typed<Value> =>
    expr`iif(m.maker_id = ${userId}, ${raw(ofMaker)}, ${raw(ofRequester)})`;
  return {
    ...TAPE_TRADE,
    request_id: typed<string>("hex(m.request_id)"),
    quote_id: typed<string>("hex(m.quote_id)"),
    fee: ofReader<string>("CAST(m.maker_fee AS TEXT)", "CAST(m.taker_fee AS TEXT)"),
    role: ofReader<"maker" | "requester">("'maker'", "'requester'"),
    label: ofReader<string | null>("m.maker_label", "m.requester_label"),
    complement: ofReader<string | null>("m.complement", "NULL"),
  };
}

export type MatchRow = Optional<RowOf<ReturnType<typeof matchColumns>>, "complement">;

export function matchView(row: MatchRow) {
  const { match_id, created_at, ...trade } = tradeView(row);
  return {
    match_id,
    request_id: readUuid(row.request_id),
    quote_id: readUuid(row.quote_id),
    ...trade,
    fee: toHex(BigInt(row.fee)),
    role: row.role,
    label: row.label,
    complement_asset_id: readAssetKey(row.complement ?? USDC)?.assetId ?? null,
    status: "settled" as const,
    created_at,
  };
}

/** A trade of the tape: a match without its parties and fees. */
export const TAPE_TRADE = {
  match_id: typed<string>("hex(m.match_id)"),
  asset: typed<string>("m.asset"),
  side: typed<Side>("m.side"),
  amount: typed<string>("CAST(m.amount AS TEXT)"),
  price: typed<number>("m.price"),
  usdc_amount: typed<string>("CAST(m.usdc_amount AS TEXT)"),
  at: typed<number>("m.at"),
};

export type TradeRow = RowOf<typeof TAPE_TRADE>;

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
