/** What the user holds, what it cost and what it is worth. */
import { useList } from "../session/use-service.ts";
import { Facts, Part } from "../ui/facts.tsx";
import { AssetName, resultOf, tokensOf, usdcOf } from "../ui/price.tsx";
import { Table } from "../ui/table.tsx";
import { formatPrice, roundPrice } from "../units.ts";
import { useBalances } from "../wallet/balances.tsx";

const SHOWN = 100;

function usePositions() {
  return useList(["balances", "positions"], (client) => client.rfq.positions({ limit: SHOWN }));
}

/** USDC, and tokens at their last prices. */
export function Total() {
  const usdc = useBalances()?.find(({ venue_id }) => venue_id === null);
  const positions = usePositions();
  if (positions === undefined) return null;
  const tokens = positions.reduce((sum, { value }) => sum + (value ?? 0n), 0n);
  const { balance: usable = 0n, pending_balance: promised = 0n } = usdc ?? {};
  return (
    <>
      <p className="big-price">
        <b>{usdcOf(usable + promised + tokens) || "0.00"}</b>{" "}
        <span className="muted">USDC, with tokens at their last prices</span>
      </p>
      <Facts
        inline
        facts={{
          "USDC you can use": usdcOf(usable),
          "Tokens at the last price": usdcOf(tokens),
          Promised: usdcOf(promised),
        }}
      />
    </>
  );
}

export function Positions() {
  return (
    <Part title="Positions">
      <Table
        caption="Tokens held or traded"
        rows={usePositions()}
        rowKey={({ venue_id, asset_id }) => `${venue_id} ${asset_id}`}
        empty="You hold no tokens. Choose a market and ask for quotes."
        columns={[
          ["Market", (position) => <AssetName asset={position} />],
          ["Held", ({ amount }) => tokensOf(amount), "number"],
          ["Paid, on average", ({ average_price: paid }) => rounded(paid), "number"],
          ["Last price", ({ last_price: last }) => rounded(last), "number"],
          ["Worth, USDC", ({ value }) => usdcOf(value), "number"],
          ["Result of sales", resultOf, "number"],
        ]}
      />
    </Part>
  );
}

function rounded(price: number | null): string {
  return price === null ? "" : formatPrice(roundPrice(price));
}
