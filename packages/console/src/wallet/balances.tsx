import { useAssetName } from "../markets.ts";
import { useList } from "../session/use-service.ts";
import { Table } from "../ui/table.tsx";
import { formatTokens } from "../units.ts";

/** The most that one page of the service holds. */
export const BALANCES = 500;

export function useBalances() {
  return {
    data: useList(["balances"], (client) => client.custody.balances({ limit: BALANCES })),
  };
}

export function Balances() {
  const nameOf = useAssetName();
  return (
    <section className="card" aria-label="Balances">
      <h2>Balances</h2>
      <Table
        caption="What you can use, and what quotes and withdrawals have promised"
        rows={useBalances().data}
        rowKey={({ venue_id, asset_id }) => `${venue_id} ${asset_id}`}
        empty="You hold nothing yet. Deposit USDC to trade."
        columns={[
          ["What", (balance) => nameOf(balance)],
          ["You can use", ({ balance }) => formatTokens(balance), "number"],
          [
            "Promised",
            ({ pending_balance: promised }) => (promised === 0n ? "" : formatTokens(promised)),
            "number",
          ],
        ]}
      />
    </section>
  );
}
