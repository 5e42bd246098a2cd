/** What a trade costs each side. Pure. Amounts are native units, fees basis points of USDC. */
import { type AssetKey, USDC } from "../assets/asset.ts";
import type { Side } from "../assets/asset-fields.ts";
import type { RequestTerms } from "./request-terms.ts";

/** Prices are integers scaled by 1e6: 650000 means 0.65 USDC for one whole token. */
const PRICE_SCALE = 1_000_000n;

export type TradeTerms = {
  readonly usdcAmount: bigint;
  readonly takerFee: bigint;
  readonly makerFee: bigint;
  /** What the maker reserves: the asset for a Bid, USDC and the maker's fee for an Ask. */
  readonly reserveAsset: AssetKey;
  readonly reserve: bigint;
};

/** What a Bid reserves whose match makes both tokens of a pair: the rest of the USDC, and the fee. */
export function mintingReserve(amount: bigint, terms: TradeTerms): bigint {
  return amount - terms.usdcAmount + terms.makerFee;
}

/**
 * The amount of a quote at this price: the request's, or what its USDC buys. Rounded down, so that
 * the cost of the trade, which is rounded up, never exceeds that USDC. It is at least 1, because a
 * price is at most 1 USDC.
 */
export function quotedAmount(
  { amount, usdcAmount }: Pick<RequestTerms, "amount" | "usdcAmount">,
  price: bigint,
): bigint {
  return amount ?? ((usdcAmount ?? 0n) * PRICE_SCALE) / price;
}

/** The largest amount of USDC that the fee on it does not bring above `usdc`. */
export function lessFee(usdc: bigint, feeBps: bigint): bigint {
  const less = (usdc * 10_000n) / (10_000n + feeBps);
  return less + 1n + ((less + 1n) * feeBps) / 10_000n > usdc ? less : less + 1n;
}

export function tradeTerms(trade: {
  /** `Bid`: the requester buys the asset with USDC. `Ask`: the requester sells it for USDC. */
  readonly side: Side;
  readonly asset: AssetKey;
  readonly amount: bigint;
  readonly price: bigint;
  readonly takerFeeBps: bigint;
  readonly makerFeeBps: bigint;
}): TradeTerms {
  // Rounded up, so that the seller never loses a fraction and no asset is free.
  const usdcAmount = (trade.amount * trade.price + PRICE_SCALE - 1n) / PRICE_SCALE;
  const takerFee = (usdcAmount * trade.takerFeeBps) / 10_000n;
  const makerFee = (usdcAmount * trade.makerFeeBps) / 10_000n;
  return trade.side === "Bid"
    ? { usdcAmount, takerFee, makerFee, reserveAsset: trade.asset, reserve: trade.amount }
    : { usdcAmount, takerFee, makerFee, reserveAsset: USDC, reserve: usdcAmount + makerFee };
}
