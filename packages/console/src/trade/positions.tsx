/** The tokens that the user holds, valued at the last price of the tape. */
import type { Balance, Client, MarketAsset } from "@rfq-custody/client";
import { useQueries, useQuery } from "@tanstack/react-query";
import { useAssetName } from "../markets.ts";
import { useClient } from "../session/session.tsx";
import { Table } from "../ui/table.tsx";
import { formatPrice, formatUnits, worth } from "../units.ts";

const HELD = 50;

export function useBalances() {
  const client = useClient();
  return useQuery({
    queryKey: ["balances"],
    queryFn: async () => (await client.custody.balances({ limit: 100 }).page()).items,
  });
}

/** The tape keeps 24 hours, so the last price of a quiet market is unknown. */
export async function lastPrice(
  client: Client,
  asset: MarketAsset,
  before: { to?: string } = {},
): Promise<number | null> {
  const { items } = await client.rfq.trades({ ...asset, ...before, limit: 1 }).page();
  return items[0]?.price ?? null;
}

type Position = Balance & MarketAsset & { total: bigint; price: number | null };

export function Positions() {
  const client = useClient();
  const nameOf = useAssetName();
  const { data: balances } = useBalances();
  const held = (balances ?? [])
    .filter((balance): balance is Balance & MarketAsset => balance.venue_id !== null)
    .filter(({ balance, pending_balance }) => balance + pending_balance > 0n)
    .slice(0, HELD);
  const prices = useQueries({
    queries: held.map(({ venue_id, asset_id }) => ({
      queryKey: ["trades", "last", venue_id, asset_id],
      queryFn: () => lastPrice(client, { venue_id, asset_id }),
    })),
  });
  const rows: Position[] = held.map((balance, index) => ({
    ...balance,
    total: balance.balance + balance.pending_balance,
    price: prices[index]?.data ?? null,
  }));
  return (
    <section className="card" aria-label="Positions">
      <h2>Positions</h2>
      <Table
        caption="Tokens held"
        rows={balances === undefined ? undefined : rows}
        rowKey={({ venue_id, asset_id }) => `${venue_id} ${asset_id}`}
        empty="You hold no tokens."
        columns={[
          { title: "Market", cell: (position) => nameOf(position) },
          { title: "Held", cell: ({ total }) => formatUnits(total), number: true },
          {
            title: "Of it reserved",
            cell: ({ pending_balance }) => formatUnits(pending_balance),
            number: true,
          },
          {
            title: "Last price",
            cell: ({ price }) => (price === null ? "–" : formatPrice(price)),
            number: true,
          },
          {
            title: "Worth, USDC",
            cell: ({ total, price }) => (price === null ? "–" : formatUnits(worth(total, price))),
            number: true,
          },
        ]}
      />
    </section>
  );
}
