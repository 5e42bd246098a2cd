import { useList } from "../session/session.tsx";
import { AssetName, tokensOf } from "../ui/values.tsx";
import { Part, Table } from "../ui/records.tsx";

/** The most that one page of the service holds. */
export const BALANCES = 500;

export function useBalances() {
  return useList(["balances"], (client) => client.custody.balances({ limit: BALANCES }));
}

export function Balances() {
  return (
    <Part title="Balances">
      <Table
        caption="What you can use, and what quotes and withdrawals have promised"
        rows={useBalances()}
        rowKey={({ venue_id, asset_id }) => `${venue_id} ${asset_id}`}
        empty="You hold nothing yet. Deposit USDC to trade."
        columns={[
          ["What", (balance) => <AssetName asset={balance} />],
          ["You can use", ({ balance }) => tokensOf(balance), "number"],
          ["Promised", ({ pending_balance: promised }) => tokensOf(promised), "number"],
        ]}
      />
    </Part>
  );
}
