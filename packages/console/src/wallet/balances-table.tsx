import { AssetName, tokensOf } from "../ui/values.tsx";
import { Part, Table } from "../ui/records.tsx";
import { assetKey } from "../units.ts";
import { useBalances } from "./balances.ts";

export function Balances() {
  return (
    <Part title="Balances">
      <Table
        caption="What you can use, and what quotes and withdrawals have promised"
        rows={useBalances()}
        rowKey={assetKey}
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
