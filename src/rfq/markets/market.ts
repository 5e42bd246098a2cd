/** A market: what an asset is, for people, and until when it trades. */
import { readAssetKey } from "../../assets/asset.ts";
import { toWireTime } from "../../platform/time.ts";
import type { markets } from "../tables.ts";

export const MARKET_STATUSES = ["open", "closed"] as const;
export type MarketStatus = (typeof MARKET_STATUSES)[number];

export type Market = Readonly<typeof markets.$inferSelect>;

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
