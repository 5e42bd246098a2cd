/** What the user holds, what it cost and what it is worth. */
import { useQuery } from "@tanstack/react-query";
import { useAssetName } from "../markets.ts";
import { marketHref } from "../router.ts";
import { useClient } from "../session/session.tsx";
import { Table } from "../ui/table.tsx";
import { formatPrice, formatTokens, formatUnits } from "../units.ts";

const SHOWN = 100;

export function Positions() {
  const client = useClient();
  const nameOf = useAssetName();
  const { data: positions } = useQuery({
    queryKey: ["balances", "positions"],
    queryFn: async () => (await client.rfq.positions({ limit: SHOWN }).page()).items,
  });
  return (
    <section className="card" aria-label="Positions">
      <h2>Positions</h2>
      <Table
        caption="Tokens held or traded"
        rows={positions}
        rowKey={({ venue_id, asset_id }) => `${venue_id} ${asset_id}`}
        empty="You hold no tokens. Choose a market and ask for quotes."
        columns={[
          {
            title: "Market",
            cell: (position) => <a href={marketHref(position)}>{nameOf(position)}</a>,
          },
          { title: "Held", cell: ({ amount }) => formatTokens(amount), number: true },
          {
            title: "Paid, on average",
            cell: ({ average_price: paid }) => (paid === null ? "" : formatPrice(paid)),
            number: true,
          },
          {
            title: "Last price",
            cell: ({ last_price: last }) => (last === null ? "" : formatPrice(last)),
            number: true,
          },
          {
            title: "Worth, USDC",
            cell: ({ value }) => (value === null ? "" : formatUnits(value)),
            number: true,
          },
          {
            title: "Result of sales, USDC",
            cell: ({ realized, sold }) =>
              realized === null || sold === 0n ? (
                ""
              ) : (
                <span className={realized < 0n ? "down" : "up"}>
                  {realized > 0n ? "+" : ""}
                  {formatUnits(realized)}
                </span>
              ),
            number: true,
          },
        ]}
      />
    </section>
  );
}
