/** What is traded: the deployment's venues, and the names of listed markets. */
import type { MarketAsset, ServiceConfig, Ticker } from "@rfq-custody/client";
import { questionOf } from "./markets/market-cards.ts";
import { useList, useRead } from "./session/session.tsx";
import { keepPreviousData } from "@tanstack/react-query";
import { assetKey, shortId } from "./units.ts";

export function useConfig(): ServiceConfig | undefined {
  return useRead(["config"], (client) => client.config(), { rare: true });
}

/** For a `SelectField` that filters by venue. */
export function useVenueOptions(): Record<string, string> {
  const venues = (useConfig()?.venues ?? []).map(({ venue_id }) => [venue_id, venue_id]);
  return { "": "All", ...Object.fromEntries(venues) };
}

/** Enough for a page of cards. A search narrows it. */
const LISTED = 500;

/** The open markets whose title or outcome contains every word. */
export function useMarketList(search: string) {
  const q = search.trim();
  const filter = { status: "open", limit: LISTED, ...(q === "" ? {} : { q }) } as const;
  return useList(["markets", q], (client) => client.markets(filter), {
    rare: true,
    placeholderData: keepPreviousData,
  });
}

/** Outcomes of a question that are shown beside each other. */
const OUTCOMES = 50;

/** The outcomes of one question, the closed ones too. Empty: the asset is not listed. */
export function useMarket(asset: MarketAsset) {
  const read = useRead(
    ["market", asset.venue_id, asset.asset_id],
    async (client) => {
      const { items } = await client.markets({ ...asset, limit: 1 }).page();
      const [market] = items;
      if (market === undefined) return [];
      const { venue_id, event_id, title } = market;
      const found = event_id === null ? { q: title } : { event_id };
      const all = (await client.markets({ venue_id, ...found, limit: OUTCOMES }).page()).items;
      const same = all.filter((other) => questionOf(other) === questionOf(market));
      return [market, ...same.filter(({ asset_id }) => asset_id !== market.asset_id)];
    },
    { rare: true },
  );
  return read ?? [];
}

/** The service reads them every ten seconds. */
const TICKERS_MS = 10_000;
/** By `assetKey`. */
export type Tickers = ReadonlyMap<string, Ticker>;
const NONE: Tickers = new Map();

/** A page. Listed markets are first, so nobody hides them. */
const TRADED = 500;

/** What traded in the last day, by venue and asset. */
export function useTickers(): Tickers {
  const read = useRead(
    ["tickers"],
    async (client) => {
      const { items } = await client.rfq.tickers({ limit: TRADED }).page();
      return new Map(items.map((ticker) => [assetKey(ticker), ticker]));
    },
    { refetchEvery: TICKERS_MS },
  );
  return read ?? NONE;
}

/** Enough for the names of what one user holds and sees. Others are shown by their ids. */
const NAMED = 500;

export type Asset = { venue_id: string | null; asset_id: string | null };
export type Name = { readonly title: string; readonly outcome: string };
const USDC: Name = { title: "USDC", outcome: "" };

export function textOf({ title, outcome }: Name): string {
  return outcome === "" ? title : `${title}: ${outcome}`;
}

/** The names of assets: of the market and the outcome, or the ids if it is not listed. */
export function useNames(): (asset: Asset) => Name {
  const names = useRead(
    ["market-names"],
    async (client) => {
      const { items } = await client.markets({ limit: NAMED }).page();
      return new Map(items.map(({ title, outcome, ...of }) => [assetKey(of), { title, outcome }]));
    },
    { rare: true },
  );
  return ({ venue_id, asset_id }) =>
    venue_id === null || asset_id === null
      ? USDC
      : (names?.get(assetKey({ venue_id, asset_id })) ?? {
          title: `${venue_id} ${shortId(asset_id)}`,
          outcome: "",
        });
}

/** As `useNames`, in one text. */
export function useAssetName(): (asset: Asset) => string {
  const nameOf = useNames();
  return (asset) => textOf(nameOf(asset));
}
