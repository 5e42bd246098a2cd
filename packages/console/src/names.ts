/**
 * What assets are called. Only the names of those on screen are read, many at once, because there
 * may be thousands of markets.
 */
import type { Market, MarketAsset } from "@rfq-custody/client";
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { visitor } from "./session/session.tsx";
import { assetKey, shortId } from "./units.ts";

export type Asset = { venue_id: string | null; asset_id: string | null };
export type Name = { readonly title: string; readonly outcome: string };
const USDC: Name = { title: "USDC", outcome: "" };

/** Ids fit into an address of 8 KB. */
const AT_ONCE = 100;
/** What a page asks for while it renders is read in one call. */
const GATHER_MS = 20;
/** An asset may be listed later. */
const AGAIN_MS = 60_000;

const known = new Map<string, Market | null>();
const wanted = new Map<string, MarketAsset>();
const listeners = new Set<() => void>();
let version = 0;
let timer: ReturnType<typeof setTimeout> | undefined;

function changed(): void {
  version += 1;
  for (const listener of listeners) listener();
}

function want(asset: MarketAsset, queries: QueryClient): void {
  wanted.set(assetKey(asset), asset);
  timer ??= setTimeout(() => {
    timer = undefined;
    const assets = [...wanted.values()];
    wanted.clear();
    // As a query, so that a page waits for it. Without the names it shows ids.
    const queryKey = ["names", ...assets.map(assetKey)];
    queries.fetchQuery({ queryKey, queryFn: () => learn(assets) }).catch(() => undefined);
  }, GATHER_MS);
}

/** Reads what assets are called. */
export async function learn(assets: readonly Asset[]): Promise<number> {
  const unknown = new Map<string, MarketAsset>();
  for (const { venue_id, asset_id } of assets)
    if (venue_id !== null && asset_id !== null && !known.has(assetKey({ venue_id, asset_id })))
      unknown.set(assetKey({ venue_id, asset_id }), { venue_id, asset_id });
  for (const [venue_id, of] of Map.groupBy(unknown.values(), (one) => one.venue_id))
    for (let from = 0; from < of.length; from += AT_ONCE) {
      const some = of.slice(from, from + AT_ONCE);
      const ids = some.map(({ asset_id }) => asset_id);
      const { items } = await visitor.markets({ venue_id, assets: ids, limit: AT_ONCE }).page();
      const found = new Map(items.map((market) => [assetKey(market), market]));
      for (const one of some) known.set(assetKey(one), found.get(assetKey(one)) ?? null);
      changed();
    }
  return unknown.size;
}

setInterval(() => {
  for (const [key, market] of known) if (market === null) known.delete(key);
}, AGAIN_MS);

export function textOf({ title, outcome }: Name): string {
  return outcome === "" ? title : `${title}: ${outcome}`;
}

/** For who has learnt them before. The ids if it is not listed. */
export function nameOf({ venue_id, asset_id }: Asset): Name {
  if (venue_id === null || asset_id === null) return USDC;
  const market = known.get(assetKey({ venue_id, asset_id }));
  return market ?? { title: `${venue_id} ${shortId(asset_id)}`, outcome: "" };
}

/** The markets of assets as far as they are known. Asks for the others. */
export function useMarkets(): (asset: Asset) => Market | null {
  const queries = useQueryClient();
  useSyncExternalStore(subscribe, () => version);
  return ({ venue_id, asset_id }) => {
    if (venue_id === null || asset_id === null) return null;
    const asset = { venue_id, asset_id };
    const market = known.get(assetKey(asset));
    if (market === undefined) want(asset, queries);
    return market ?? null;
  };
}

/** As `nameOf`, and asks for the names that are not known. */
export function useNames(): (asset: Asset) => Name {
  const marketOf = useMarkets();
  return (asset) => marketOf(asset) ?? nameOf(asset);
}

/** As `useNames`, in one text. */
export function useAssetName(): (asset: Asset) => string {
  const named = useNames();
  return (asset) => textOf(named(asset));
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
