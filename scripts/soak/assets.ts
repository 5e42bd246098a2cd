import type { MarketAsset } from "../../packages/client/src/index.ts";
import type { Deployment } from "../stack/deploy-contracts.ts";
import { type Token, tokenOf } from "../stack/tokens.ts";

export const USDC = "USDC";
export type Asset = typeof USDC | MarketAsset;

/** Few, so that users trade with each other. One of the two venues takes fees. */
export const TOKENS: readonly MarketAsset[] = [
  { venue_id: "venue_one", asset_id: "0xa11ce" },
  { venue_id: "venue_one", asset_id: "0xb0b" },
  { venue_id: "venue_two", asset_id: "0xa11ce" },
];
export const ASSETS: readonly Asset[] = [USDC, ...TOKENS];

/** What it is on the chain. */
export function tokenOfAsset(deployment: Deployment, asset: Asset): Token {
  return tokenOf(deployment, asset === USDC ? null : asset);
}

export function nameOf(asset: Asset): string {
  return asset === USDC ? USDC : `${asset.venue_id}:${asset.asset_id}`;
}

/** The asset of a record. Null ids mean USDC. */
export function nameOfRecord({
  venue_id,
  asset_id,
}: {
  venue_id: string | null;
  asset_id: string | null;
}): string {
  return venue_id === null || asset_id === null
    ? USDC
    : `${venue_id}:0x${BigInt(asset_id).toString(16)}`;
}
