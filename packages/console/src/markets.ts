/** What is traded: the deployment's venues, its markets and what they trade at. */
import type { MarketAsset, ServiceConfig, Ticker } from "@rfq-custody/client";
import { keepPreviousData } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { questionOf } from "./markets/market-cards.ts";
import { useList, useRead, useWhole } from "./session/session.tsx";
import { assetKey } from "./units.ts";

/** A page shows what it can without it. */
export function useConfig(): ServiceConfig | undefined {
  return useRead(["config"], (client) => client.config(), { rare: true });
}

/** For a `SelectField` that filters by venue. */
export function useVenueOptions(): Record<string, string> {
  const venues = (useConfig()?.venues ?? []).map(({ venue_id }) => [venue_id, venue_id]);
  return { "": "All", ...Object.fromEntries(venues) };
}

/** About fifty cards. */
const LISTED = 120;

/** The open markets whose title or outcome contains every word, the most traded questions first. */
export function useMarketList(search: string, venue_id: string) {
  const q = search.trim();
  const [pages, setPages] = useState(1);
  const filter = {
    status: "open",
    sort: "volume",
    limit: LISTED,
    ...(q === "" ? {} : { q }),
    ...(venue_id === "" ? {} : { venue_id }),
  } as const;
  const read = useWhole(["markets", q, venue_id], (client) => client.markets(filter), {
    rare: true,
    placeholderData: keepPreviousData,
    pages,
  });
  return {
    markets: read?.items,
    more: read?.isCut === true ? () => setPages(pages + 1) : null,
  };
}

/** Outcomes of a question that are shown beside each other. */
const OUTCOMES = 50;

/** The outcomes of one question, the closed ones too. Empty: the asset is not listed. */
export function useMarket(asset: MarketAsset) {
  return useRead(
    ["market", asset.venue_id, asset.asset_id],
    async (client) => {
      const { items } = await client.markets({ ...asset, limit: 1 }).page();
      const [market] = items;
      if (market === undefined) return [];
      const { venue_id, event_id, title } = market;
      const found = event_id === null ? { q: title.slice(0, 100) } : { event_id };
      const all = (await client.markets({ venue_id, ...found, limit: OUTCOMES }).page()).items;
      const same = all.filter((other) => questionOf(other) === questionOf(market));
      return [market, ...same.filter(({ asset_id }) => asset_id !== market.asset_id)];
    },
    { rare: true },
  );
}

/** The service reads them every few seconds. */
const TICKERS_MS = 10_000;
/** By `assetKey`. */
export type Tickers = ReadonlyMap<string, Ticker>;
const NONE: Tickers = new Map();

/** A page. The listed markets that traded most are first. */
const TRADED = 500;

/** What traded in the last day, by venue and asset. A page is of use without. */
export function useTickers(): Tickers {
  const read = useList(["tickers"], (client) => client.rfq.tickers({ limit: TRADED }), {
    refetchEvery: TICKERS_MS,
    optional: true,
  });
  return useMemo(
    () => (read === undefined ? NONE : new Map(read.map((one) => [assetKey(one), one]))),
    [read],
  );
}
