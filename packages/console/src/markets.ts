/** What is traded: the deployment's venues, and the names of listed markets. */
import type { MarketAsset, ServiceConfig, Ticker } from "@rfq-custody/client";
import { useQuery } from "@tanstack/react-query";
import { assetKey } from "./markets/market-cards.ts";
import { useClient, useIsSignedIn } from "./session/session.tsx";
import { shortId } from "./units.ts";

export function useConfig() {
  const client = useClient();
  return useQuery({ queryKey: ["config"], queryFn: () => client.config(), staleTime: 60_000 });
}

/** For a `SelectField` that filters by venue. */
export function venueOptions(config: ServiceConfig | undefined): Record<string, string> {
  const venues = (config?.venues ?? []).map(({ venue_id }) => [venue_id, venue_id]);
  return { "": "All", ...Object.fromEntries(venues) };
}

/** Enough for a page of cards. A search narrows it. */
const LISTED = 500;

/** The open markets whose title or outcome contains every word. */
export function useMarketList(search: string) {
  const client = useClient();
  const q = search.trim();
  return useQuery({
    queryKey: ["markets", q],
    queryFn: async () =>
      (await client.markets({ status: "open", limit: LISTED, ...(q === "" ? {} : { q }) }).page())
        .items,
    staleTime: 60_000,
    placeholderData: (before) => before,
  });
}

/** The markets of one title, the closed ones too. Empty: the asset is not listed. */
export function useMarket(asset: MarketAsset) {
  const client = useClient();
  return useQuery({
    queryKey: ["market", asset.venue_id, asset.asset_id],
    queryFn: async () => {
      const { items } = await client.markets({ ...asset, limit: 1 }).page();
      const [market] = items;
      if (market === undefined) return [];
      const { venue_id, title } = market;
      const all = (await client.markets({ venue_id, q: title, limit: OUTCOMES }).page()).items;
      const same = all.filter((other) => other.title === title);
      return [market, ...same.filter(({ asset_id }) => asset_id !== market.asset_id)];
    },
    staleTime: 60_000,
  });
}

/** Outcomes of a title that are shown beside each other. */
const OUTCOMES = 50;
/** The service reads them every ten seconds. */
const TICKERS_MS = 10_000;
const NONE: ReadonlyMap<string, Ticker> = new Map();

/** What traded in the last day, by venue and asset. Empty for who is not signed in. */
export function useTickers(): ReadonlyMap<string, Ticker> {
  const client = useClient();
  const signedIn = useIsSignedIn();
  const { data: config } = useConfig();
  const venues = config?.venues.map(({ venue_id }) => venue_id);
  const { data } = useQuery({
    queryKey: ["tickers", venues],
    enabled: signedIn && venues !== undefined,
    queryFn: async () => {
      const pages = await Promise.all(
        (venues ?? []).map((venue_id) => client.rfq.tickers({ venue_id })),
      );
      const items = pages.flatMap((page) => page.items);
      return new Map(items.map((ticker) => [assetKey(ticker), ticker]));
    },
    refetchInterval: TICKERS_MS,
  });
  return data ?? NONE;
}

/** Enough for the names of what one user holds and sees. Others are shown by their ids. */
const NAMED = 500;

/** The name of an asset: its market's title and outcome, or its ids if it is not listed. */
export function useAssetName(): (asset: {
  venue_id: string | null;
  asset_id: string | null;
}) => string {
  const client = useClient();
  const { data: names } = useQuery({
    queryKey: ["market-names"],
    queryFn: async () => {
      const { items } = await client.markets({ limit: NAMED }).page();
      return new Map(
        items.map((market) => [assetKey(market), `${market.title}: ${market.outcome}`]),
      );
    },
    staleTime: 60_000,
  });
  return (asset) => {
    const { venue_id, asset_id } = asset;
    if (venue_id === null || asset_id === null) return "USDC";
    return names?.get(assetKey({ venue_id, asset_id })) ?? `${venue_id} ${shortId(asset_id)}`;
  };
}
