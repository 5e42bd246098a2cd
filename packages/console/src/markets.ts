/** What is traded: the deployment's venues, and the names of listed markets. */
import type { Client } from "@rfq-custody/client";
import { useQuery } from "@tanstack/react-query";
import { useClient } from "./session/session.tsx";
import { shortId } from "./units.ts";

export function useConfig() {
  const client = useClient();
  return useQuery({ queryKey: ["config"], queryFn: () => client.config(), staleTime: 60_000 });
}

/** The first markets whose title or outcome contains every word. */
export function useMarkets(search: string) {
  const client = useClient();
  return useQuery({
    queryKey: ["markets", search],
    queryFn: () => searchMarkets(client, search),
    staleTime: 60_000,
    placeholderData: (before) => before,
  });
}

const SHOWN = 8;

async function searchMarkets(client: Client, search: string) {
  const q = search.trim();
  const filter = { status: "open" as const, limit: SHOWN, ...(q === "" ? {} : { q }) };
  return (await client.markets(filter).page()).items;
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
      return new Map(items.map((market) => [keyOf(market), `${market.title}: ${market.outcome}`]));
    },
    staleTime: 60_000,
  });
  return (asset) => {
    const { venue_id, asset_id } = asset;
    if (venue_id === null || asset_id === null) return "USDC";
    return names?.get(keyOf({ venue_id, asset_id })) ?? `${venue_id} ${shortId(asset_id)}`;
  };
}

function keyOf({ venue_id, asset_id }: { venue_id: string; asset_id: string }): string {
  return `${venue_id} ${asset_id}`;
}
