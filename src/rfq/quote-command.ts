/** A quote as the service carries it to the database: a row of `quote_commands`, and its terms. */
import type { CommandRow } from "../platform/command-rows.ts";
import { type Config, venueConfig } from "../platform/config.ts";
import { atom, type Columns, type Expr, expr } from "../platform/sql.ts";
import { ACTOR_FIELDS, actorRow } from "../auth/may-write.ts";
import { readAssetKey, USDC } from "../assets/asset.ts";
import type { Side } from "../assets/asset-fields.ts";
import type { Backing, PlaceQuote } from "./command.ts";
import { KEY_FIELDS, keyRow } from "./idempotency.ts";
import { commitBefore } from "./rejections.ts";
import type { RequestTerms } from "./request-terms.ts";
import { mintingReserve, quotedAmount, tradeTerms, type TradeTerms } from "./trade-terms.ts";

/** A command as a row of `quote_commands`. */
export const QUOTE_FIELDS = {
  quote_id: "blob",
  request_id: "blob",
  maker_id: "blob",
  ...ACTOR_FIELDS,
  price: "integer",
  amount: "text",
  side: "text",
  usdc_amount: "amount",
  taker_fee: "amount",
  maker_fee: "amount",
  reserve_asset: "text",
  reserve: "amount",
  received_at: "integer",
  life_ms: "integer",
  commit_before: "integer",
  not_after: "integer",
  label: "text",
  replaces: "blob",
  max_open_quotes: "integer",
  socket_id: "blob",
  ...KEY_FIELDS,
  confirm_price: "integer",
  min_priced: "integer",
  backing: "text",
} as const;
export type QuoteField = keyof typeof QUOTE_FIELDS;
/** `at` is the instant of the group. */
export type CommandColumns = Columns<QuoteField | "at">;

export function quoteCommandRow(
  command: PlaceQuote,
  terms: QuoteTerms,
  settings: Config,
): CommandRow<QuoteField> {
  const { actor, receivedAt } = command;
  return {
    quote_id: command.quoteId,
    request_id: command.requestId,
    maker_id: actor.userId,
    ...actorRow(actor),
    price: command.price,
    amount: terms.amount.toString(),
    side: terms.side,
    usdc_amount: terms.usdcAmount.toString(),
    taker_fee: terms.takerFee.toString(),
    maker_fee: terms.makerFee.toString(),
    reserve_asset: terms.reserveAsset,
    reserve: terms.reserve.toString(),
    received_at: receivedAt,
    // Counts from the receipt, so that a delay shortens the time for which the maker is bound.
    life_ms: command.expiresInSecs * 1_000,
    commit_before: commitBefore(receivedAt, settings),
    not_after: command.notAfter ?? null,
    label: command.label ?? null,
    replaces: command.replaces,
    max_open_quotes: settings.RFQ_OPEN_QUOTES_PER_USER,
    socket_id: command.socketId ?? null,
    ...keyRow(command),
    confirm_price: command.confirmPrice === true ? 1 : null,
    min_priced: terms.minPriced,
    backing: terms.backing,
  };
}

/** `side` is null if the quote has none, although the request is two-way. Then it is rejected. */
export type QuoteTerms = TradeTerms & {
  readonly side: Side | null;
  readonly amount: bigint;
  /** A smaller trade is no last price. */
  readonly minPriced: number;
  /** Null: the pair takes no part. */
  readonly backing: Backing | null;
};

/** Scalar: the other token of the pair. NULL: the asset is not paired. */
export function complementOf(asset: Expr): Expr {
  return expr`SELECT k.complement FROM markets k WHERE k.asset = ${asset}`;
}

/**
 * Scalar: as `complementOf`, if the pair can take part. One with a chain may lack the USDC to take
 * tokens back, because others came by deposit.
 */
export function backingOf(asset: Expr, backing: Expr): Expr {
  return expr`SELECT k.complement FROM markets k
    WHERE k.asset = ${asset} AND (k.condition IS NULL OR ${backing} = 'usdc')`;
}

/** Scalar over `requests r`: what the quote reserves. A command does not know the complement. */
export function reserveAssetOf(c: Columns<"backing" | "reserve_asset">): Expr {
  return expr`iif(${c.backing} = 'complement', ${complementOf(atom("r.asset"))},
    ${c.reserve_asset})`;
}

export function quoteTerms(
  command: PlaceQuote,
  request: RequestTerms,
  settings: Config,
): QuoteTerms {
  const fees = venueConfig(settings, readAssetKey(request.asset)?.venue ?? "");
  const price = BigInt(command.price);
  const side = command.side ?? (request.side === "TwoWay" ? null : request.side);
  const amount = quotedAmount(request, price);
  const terms = tradeTerms({
    side: side ?? "Bid",
    asset: request.asset,
    amount,
    price,
    takerFeeBps: BigInt(fees.taker_fee_bps),
    makerFeeBps: BigInt(fees.maker_fee_bps),
  });
  const mints = side === "Bid" && command.backing === "usdc";
  const isBacked = mints || command.backing === "complement";
  return {
    ...terms,
    ...(mints ? { reserveAsset: USDC, reserve: mintingReserve(amount, terms) } : {}),
    ...(isBacked && !mints ? { reserve: amount } : {}),
    side,
    amount,
    minPriced: fees.min_priced_trade,
    backing: isBacked ? (command.backing ?? null) : null,
  };
}
