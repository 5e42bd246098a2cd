/** A market: what an asset is, for people, and until when it trades. */
import { readAssetKey } from "../../assets/asset.ts";
import { toWireTime } from "../../platform/time.ts";

export const MARKET_STATUSES = ["open", "closed"] as const;
export type MarketStatus = (typeof MARKET_STATUSES)[number];

export type Market = {
  readonly asset: string;
  readonly title: string;
  readonly outcome: string;
  readonly url: string | null;
  /** Unix milliseconds. */
  readonly closesAt: number | null;
  readonly closedAt: number | null;
  /** For trials of the operator: left out of lists, tape and candles. */
  readonly test: boolean;
  readonly changedGroup: number;
  readonly result: number | null;
};

export function marketStatus({ closesAt, closedAt }: Market, now: number): MarketStatus {
  return closedAt !== null || (closesAt !== null && closesAt <= now) ? "closed" : "open";
}

export function marketView(market: Market, now: number) {
  const token = readAssetKey(market.asset);
  if (token === null) throw new Error("USDC has no market");
  return {
    venue_id: token.venue,
    asset_id: token.assetId,
    title: market.title,
    outcome: market.outcome,
    url: market.url,
    closes_at: market.closesAt === null ? null : toWireTime(market.closesAt),
    status: marketStatus(market, now),
    result: market.result,
  };
}
