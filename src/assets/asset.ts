/** Assets: USDC, or an outcome token identified by venue and asset id. */

import { VENUE_ID, type Venue } from "../platform/venues.ts";

export const USDC = "usdc";
/** `usdc`, or `<venue>:<asset_id>` with a canonical id. Used in D1 and in stream names. */
export type AssetKey = string;

export type OutcomeToken = { readonly venue: Venue; readonly assetId: string };

export function assetKey(token: OutcomeToken): AssetKey {
  return `${token.venue}:${token.assetId}`;
}

/** The outcome token of a key, or null for USDC. */
export function readAssetKey(key: AssetKey): OutcomeToken | null {
  if (key === USDC) return null;
  const colon = key.indexOf(":");
  const venue = key.slice(0, Math.max(colon, 0));
  if (!VENUE_ID.test(venue)) throw new Error(`${key} is not an asset key`);
  return { venue, assetId: key.slice(colon + 1) };
}

/** The canonical id: minimal lower-case hexadecimal, `0xab` of `0x00AB`. Undefined if malformed. */
export function canonicalAssetId(text: string): string | undefined {
  return /^0x[0-9a-fA-F]{1,64}$/.test(text) ? `0x${BigInt(text).toString(16)}` : undefined;
}
