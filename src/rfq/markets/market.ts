/** A market: what an asset is, for people, and until when it trades. */
import { toHex } from "../../assets/amount.ts";
import { readAssetKey } from "../../assets/asset.ts";
import { toWireTimeOrNull } from "../../platform/time.ts";
import { assetView } from "../rfq-records.ts";
import type { markets } from "../tables.ts";

export const MARKET_STATUSES = ["open", "closed"] as const;
export type MarketStatus = (typeof MARKET_STATUSES)[number];

export const RESOLVERS = ["operator", "venue"] as const;

export type Market = Readonly<typeof markets.$inferSelect>;

export function marketStatus({ closesAt, closedAt }: Market, now: number): MarketStatus {
  return closedAt !== null || (closesAt !== null && closesAt <= now) ? "closed" : "open";
}

/** Of a token of a pair with a condition, as decimal texts. */
export type Stock = Readonly<Record<"asset" | "withdrawable" | "issued", string>>;

const inHex = (units?: string) => (units === undefined ? null : toHex(BigInt(units)));

/** `chainless`: the venues without a chain. */
export function marketView(
  market: Market,
  now: number,
  chainless: ReadonlySet<string>,
  stock?: Stock,
) {
  const { asset, title, outcome, description, url, category, result, complement } = market;
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
    resolved_by: chainless.has(readAssetKey(asset)?.venue ?? "") ? RESOLVERS[0] : RESOLVERS[1],
    condition: market.condition,
    withdrawable: inHex(stock?.withdrawable),
    issued: inHex(stock?.issued),
    complement_asset_id: complement === null ? null : (readAssetKey(complement)?.assetId ?? null),
    settles_at: toWireTimeOrNull(market.settlesAt),
  };
}
