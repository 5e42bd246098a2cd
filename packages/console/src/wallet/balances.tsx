import { useQuery } from "@tanstack/react-query";
import { useAssetName } from "../markets.ts";
import { useClient } from "../session/session.tsx";
import { Table } from "../ui/table.tsx";
import { formatUnits } from "../units.ts";

const SHOWN = 100;

export function useBalances() {
  const client = useClient();
  return useQuery({
    queryKey: ["balances"],
    queryFn: async () => (await client.custody.balances({ limit: SHOWN }).page()).items,
  });
}

export function Balances() {
  const nameOf = useAssetName();
  const { data: balances } = useBalances();
  return (
    <section className="card" aria-label="Balances">
      <h2>Balances</h2>
      <Table
        caption="Available and reserved"
        rows={balances}
        rowKey={({ venue_id, asset_id }) => `${venue_id} ${asset_id}`}
        empty="You hold nothing yet."
        columns={[
          { title: "Asset", cell: (balance) => nameOf(balance) },
          { title: "Available", cell: ({ balance }) => formatUnits(balance), number: true },
          {
            title: "Reserved",
            cell: ({ pending_balance }) => formatUnits(pending_balance),
            number: true,
          },
        ]}
      />
    </section>
  );
}
