/** A market: what an asset is, for people, and until when it trades. */
import { toWireTimeOrNull } from "../../platform/time.ts";
import { assetView } from "../rfq-records.ts";
import type { markets } from "../tables.ts";

export const MARKET_STATUSES = ["open", "closed"] as const;
export type MarketStatus = (typeof MARKET_STATUSES)[number];

export type Market = Readonly<typeof markets.$inferSelect>;

export function marketStatus({ closesAt, closedAt }: Market, now: number): MarketStatus {
  return closedAt !== null || (closesAt !== null && closesAt <= now) ? "closed" : "open";
}

export function marketView(market: Market, now: number) {
  const { asset, title, outcome, url, closesAt, result } = market;
  const [closes_at, status] = [toWireTimeOrNull(closesAt), marketStatus(market, now)];
  return { ...assetView(asset), title, outcome, url, closes_at, status, result };
}
