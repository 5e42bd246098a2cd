/** What can be held: USDC, or an outcome token named by venue and asset id, never by asset id alone. */

import { VENUES, type Venue } from "../platform/venues.ts";

export const USDC = "usdc";
/** `usdc`, or `<venue>:<asset_id>` with the id in canonical form: the spelling used in D1 and in stream names. */
export type AssetKey = string;

export type OutcomeToken = { readonly venue: Venue; readonly assetId: string };

export function assetKey(token: OutcomeToken): AssetKey {
  return `${token.venue}:${token.assetId}`;
}

/** The outcome token of a key; null for USDC. */
export function readAssetKey(key: AssetKey): OutcomeToken | null {
  if (key === USDC) return null;
  const colon = key.indexOf(":");
  const venue = VENUES.find((name) => name === key.slice(0, colon));
  if (venue === undefined) throw new Error(`not an asset key: ${key}`);
  return { venue, assetId: key.slice(colon + 1) };
}

/** `0x00AB` and `0xab` are one asset: the canonical form is minimal lower-case hex. Undefined when it is no asset id. */
export function canonicalAssetId(text: string): string | undefined {
  return /^0x[0-9a-fA-F]{1,64}$/.test(text) ? `0x${BigInt(text).toString(16)}` : undefined;
}
