/** The deposit address with its QR code, and the confirmations of deposits on their way. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useAssetName } from "../markets.ts";
import { useClient } from "../session/session.tsx";
import { ActionButton } from "../ui/button.tsx";
import { QrCode } from "../ui/qr-code.tsx";
import { Table } from "../ui/table.tsx";
import { When } from "../ui/when.tsx";
import { formatUnits } from "../units.ts";

export function Deposits() {
  const client = useClient();
  const queries = useQueryClient();
  const nameOf = useAssetName();
  const { data: addresses } = useQuery({
    queryKey: ["deposit-addresses"],
    queryFn: () => client.custody.depositAddresses(),
  });
  const { data: deposits } = useQuery({
    queryKey: ["deposits"],
    queryFn: async () => (await client.custody.deposits({ limit: 10 }).page()).items,
    // Confirmations are no events, so a deposit on its way is read again.
    refetchInterval: ({ state }) =>
      state.data?.some(({ status }) => status === "confirming") === true ? 2_000 : false,
  });
  const current = addresses?.filter((address) => address.current) ?? [];
  return (
    <section className="card" aria-label="Deposit">
      <h2>Deposit</h2>
      {current.map(({ address, chain }) => (
        <div className="address" key={address}>
          <QrCode text={address} />
          <p>
            Send USDC or outcome tokens on <strong>{chain}</strong> to
            <br />
            <code>{address}</code>
            <br />
            <ActionButton label="Copy" run={() => navigator.clipboard.writeText(address)} />
          </p>
        </div>
      ))}
      {addresses !== undefined && current.length === 0 ? (
        <ActionButton
          kind="primary"
          label="Create a deposit address"
          run={async () => {
            await client.custody.createDepositAddress();
            await queries.invalidateQueries({ queryKey: ["deposit-addresses"] });
          }}
        />
      ) : null}
      <Table
        caption="Newest deposits"
        rows={deposits}
        rowKey={({ deposit_id }) => deposit_id}
        empty="No deposits yet."
        columns={[
          { title: "Time", cell: ({ created_at }) => <When at={created_at} /> },
          { title: "Asset", cell: (deposit) => nameOf(deposit) },
          { title: "Amount", cell: ({ amount }) => formatUnits(amount), number: true },
          {
            title: "Status",
            cell: ({ status, confirmations, required_confirmations: required }) =>
              status === "confirming"
                ? `${Math.min(confirmations, required)} of ${required} confirmations`
                : status.replaceAll("_", " "),
          },
        ]}
      />
    </section>
  );
}
