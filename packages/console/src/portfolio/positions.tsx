/** What the user holds, what it cost and what it is worth. */
import { useAssetName } from "../markets.ts";
import { marketHref } from "../router.ts";
import { useList } from "../session/use-service.ts";
import { resultOf } from "../ui/price.tsx";
import { Table } from "../ui/table.tsx";
import { formatPrice, formatTokens, formatUnits } from "../units.ts";

const SHOWN = 100;

export function Positions() {
  const nameOf = useAssetName();
  const positions = useList(["balances", "positions"], (client) =>
    client.rfq.positions({ limit: SHOWN }),
  );
  return (
    <section className="card" aria-label="Positions">
      <h2>Positions</h2>
      <Table
        caption="Tokens held or traded"
        rows={positions}
        rowKey={({ venue_id, asset_id }) => `${venue_id} ${asset_id}`}
        empty="You hold no tokens. Choose a market and ask for quotes."
        columns={[
          ["Market", (position) => <a href={marketHref(position)}>{nameOf(position)}</a>],
          ["Held", ({ amount }) => formatTokens(amount), "number"],
          [
            "Paid, on average",
            ({ average_price: paid }) => (paid === null ? "" : formatPrice(paid)),
            "number",
          ],
          [
            "Last price",
            ({ last_price: last }) => (last === null ? "" : formatPrice(last)),
            "number",
          ],
          ["Worth, USDC", ({ value }) => (value === null ? "" : formatUnits(value)), "number"],
          ["Result of sales, USDC", resultOf, "number"],
        ]}
      />
    </section>
  );
}
