import type { Balance } from "@rfq-custody/client";
import type { Asset } from "../markets.ts";
import { useList } from "../session/session.tsx";
import { AssetName, tokensOf } from "../ui/values.tsx";
import { Part, Table } from "../ui/records.tsx";
import { assetKey } from "../units.ts";

/** The most that one page of the service holds. */
const BALANCES = 500;

export function useBalances() {
  return useList(["balances"], (client) => client.custody.balances({ limit: BALANCES }));
}

const USDC: Asset = { venue_id: null, asset_id: null };

/** Undefined: none, or not read yet. */
export function useBalance(asset = USDC): Balance | undefined {
  return useBalances()?.find((one) => assetKey(one) === assetKey(asset));
}

/** What can be used of each asset. Null: unknown. */
export function useFunds(): (asset?: Asset) => bigint | null {
  const balances = useBalances();
  const funds = new Map(balances?.map((one) => [assetKey(one), one.balance]));
  // Of what is not in one page nothing is known.
  const missing = balances === undefined || balances.length >= BALANCES ? null : 0n;
  return (asset = USDC) => funds.get(assetKey(asset)) ?? missing;
}

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
