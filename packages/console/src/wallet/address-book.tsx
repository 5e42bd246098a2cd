/** The addresses that withdrawals may go to. */
import { StepUpFields, stepUp } from "../account/step-up.tsx";
import { useConfig } from "../markets.ts";
import { useAct, useList } from "../session/use-service.ts";
import { ActionButton } from "../ui/button.tsx";
import { Form, SelectField, TextField } from "../ui/form.tsx";
import { Table } from "../ui/table.tsx";
import { When } from "../ui/times.tsx";
import { Part } from "../ui/facts.tsx";

/** The service keeps at most as many. */
const LISTED = 100;

/** All entries; undefined until they are read. */
export function useAddressBook() {
  return useList(["withdrawal-addresses"], (client) =>
    client.custody.withdrawalAddresses({ limit: LISTED }),
  );
}

export function AddressBook() {
  const act = useAct("withdrawal-addresses");
  const addresses = useAddressBook();
  const config = useConfig();
  const chains = Object.fromEntries((config?.chains ?? []).map(({ chain }) => [chain, chain]));
  return (
    <Part title="Address book">
      <Table
        caption="Withdrawal addresses"
        rows={addresses}
        rowKey={({ address_id }) => address_id}
        empty="No addresses yet. Add one: withdrawals go only to addresses of this book."
        columns={[
          ["Label", ({ label }) => label],
          ["Address", ({ address }) => <code>{address}</code>],
          ["Chain", ({ chain }) => chain],
          ["Usable from", ({ active_from }) => <When at={active_from} />],
          [
            "Remove",
            ({ address_id, label }) => (
              <ActionButton
                label="Remove"
                name={`Remove ${label}`}
                run={() => act((client) => client.custody.removeWithdrawalAddress({ address_id }))}
              />
            ),
          ],
        ]}
      />
      <details>
        <summary>Add an address</summary>
        <Form
          label="Add an address"
          action="Add"
          submit={(values) =>
            act((client) =>
              client.custody.createWithdrawalAddress({
                chain: values.text("chain"),
                address: values.text("address").trim(),
                label: values.text("label"),
                ...stepUp(values),
              }),
            )
          }
        >
          <SelectField label="Chain" name="chain" options={chains} />
          <TextField label="Address" name="address" placeholder="0x…" required />
          <TextField label="Label" name="label" required />
          <StepUpFields />
        </Form>
      </details>
    </Part>
  );
}
