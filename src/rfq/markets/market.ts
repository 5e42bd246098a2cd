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
  const { asset, title, outcome, description, url, category, result } = market;
  return {
    ...assetView(asset),
    event_id: market.eventId,
    title,
    outcome,
    description,
    rules_url: market.rulesUrl,
    url,
    category,
    closes_at: toWireTimeOrNull(market.closesAt),
    status: marketStatus(market, now),
    result,
  };
}
