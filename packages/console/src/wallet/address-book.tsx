/** The addresses that withdrawals may go to. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { StepUpFields, stepUp } from "../account/step-up.tsx";
import { useClient } from "../session/session.tsx";
import { ActionButton } from "../ui/button.tsx";
import { Form, TextField } from "../ui/form.tsx";
import { Table } from "../ui/table.tsx";
import { When } from "../ui/when.tsx";

/** The service keeps at most as many. */
const LISTED = 100;

/** All entries; undefined until they are read. */
export function useAddressBook() {
  const client = useClient();
  const { data } = useQuery({
    queryKey: ["withdrawal-addresses"],
    queryFn: async () => (await client.custody.withdrawalAddresses({ limit: LISTED }).page()).items,
  });
  return data;
}

export function AddressBook() {
  const client = useClient();
  const queries = useQueryClient();
  const changed = () => queries.invalidateQueries({ queryKey: ["withdrawal-addresses"] });
  const addresses = useAddressBook();
  return (
    <section className="card" aria-label="Address book">
      <h2>Address book</h2>
      <Table
        caption="Withdrawal addresses"
        rows={addresses}
        rowKey={({ address_id }) => address_id}
        empty="No addresses yet."
        columns={[
          { title: "Label", cell: ({ label }) => label },
          { title: "Address", cell: ({ address }) => <code>{address}</code> },
          { title: "Usable from", cell: ({ active_from }) => <When at={active_from} /> },
          {
            title: "Remove",
            cell: ({ address_id, label }) => (
              <ActionButton
                label="Remove"
                name={`Remove ${label}`}
                run={async () => {
                  await client.custody.removeWithdrawalAddress({ address_id });
                  await changed();
                }}
              />
            ),
          },
        ]}
      />
      <details>
        <summary>Add an address</summary>
        <Form
          label="Add an address"
          action="Add"
          submit={async (values) => {
            await client.custody.createWithdrawalAddress({
              address: values.text("address").trim(),
              label: values.text("label"),
              ...stepUp(values),
            });
            await changed();
          }}
        >
          <TextField label="Address" name="address" placeholder="0x…" required />
          <TextField label="Label" name="label" required />
          <StepUpFields />
        </Form>
      </details>
    </section>
  );
}
