/** What limits withdrawals: the addresses that they may go to, and the account's policy. */
import { StepUpFields, stepUp } from "../account/step-up.tsx";
import { useConfig } from "../markets.ts";
import { useAct, useList, useRead } from "../session/session.tsx";
import { ActionButton } from "../ui/actions.tsx";
import { SelectField } from "../ui/choices.tsx";
import { CheckField, Form, TextField } from "../ui/form.tsx";
import { Facts, Part, Table } from "../ui/records.tsx";
import { Loading, Place } from "../ui/place.tsx";
import { Id, When } from "../ui/values.tsx";
import { formatTime, formatUnits } from "../units.ts";

export function Safety() {
  return (
    <>
      <Place of="your addresses">
        <AddressBook />
      </Place>
      <Place of="your limits">
        <Policy />
      </Place>
    </>
  );
}

/** The service keeps at most as many. */
const LISTED = 100;

export function useAddressBook() {
  return useList(["withdrawal-addresses"], (client) =>
    client.custody.withdrawalAddresses({ limit: LISTED }),
  );
}

function AddressBook() {
  const act = useAct("withdrawal-addresses");
  const addresses = useAddressBook();
  return (
    <Part title="Address book">
      <Table
        caption="Withdrawal addresses"
        rows={addresses}
        rowKey={({ address_id }) => address_id}
        empty="No addresses yet. Add the one that you withdraw to."
        columns={[
          ["Label", ({ label }) => label],
          ["Address", ({ address }) => <Id id={address} whole />],
          ["Chain", ({ chain }) => chain],
          ["Usable from", ({ active_from }) => <When at={active_from} />],
          [
            "Remove",
            ({ address_id, label }) => (
              <ActionButton
                label="Remove"
                name={`Remove ${label}`}
                ask={`Remove ${label}? A new entry may have to wait before it is usable.`}
                run={() => act((client) => client.custody.removeWithdrawalAddress({ address_id }))}
              />
            ),
            "actions",
          ],
        ]}
      />
      <AddressForm folded="Add an address" />
    </Part>
  );
}

type AddressFormProps = { folded?: string; added?: (address_id: string) => void };

/** Adds to the address book. It is part of the form of a withdrawal too. */
export function AddressForm({ folded, added }: AddressFormProps) {
  const act = useAct("withdrawal-addresses");
  const config = useConfig();
  const chains = Object.fromEntries((config?.chains ?? []).map(({ chain }) => [chain, chain]));
  const [only = ""] = Object.keys(chains);
  return (
    <Form
      {...(folded === undefined ? {} : { folded })}
      label="Add an address"
      action="Add"
      done="The address is in your book."
      submit={async (values) => {
        const { address_id } = await act((client) =>
          client.custody.createWithdrawalAddress({
            chain: values.optional("chain") ?? only,
            address: values.text("address").trim(),
            label: values.text("label"),
            ...stepUp(values),
          }),
        );
        added?.(address_id);
      }}
    >
      {Object.keys(chains).length < 2 ? null : (
        <SelectField label="Chain" name="chain" options={chains} />
      )}
      <TextField label="Address" name="address" placeholder="0x…" autoComplete="off" required />
      <TextField label="Label" name="label" required />
      <StepUpFields />
    </Form>
  );
}

const LIMITS = [
  ["trade", "max_trade_usdc_per_day", "Trade at most, USDC a day"],
  ["withdraw", "withdraw_max_usdc_per_day", "Withdraw at most, USDC a day"],
  ["approval", "withdraw_approval_above", "Approve withdrawals above, USDC a day"],
] as const;

export function usePolicy() {
  return useRead(["policy"], (client) => client.auth.policy());
}

/** Stricter values apply at once, looser ones after a delay. */
function Policy() {
  const act = useAct("policy");
  const state = usePolicy();
  if (state === undefined) return <Loading what="your limits" rows={5} />;
  const { policy, used, active_from } = state;
  return (
    <Part title="Limits">
      <Facts
        facts={{
          "Sessions may trade": policy.sessions_trade ? "yes" : "no",
          "Traded in 24 hours": usage(used.trade_usdc, policy.max_trade_usdc_per_day),
          "Withdrawn in 24 hours": usage(used.withdraw_usdc, policy.withdraw_max_usdc_per_day),
          "Withdrawals only to the address book": policy.withdraw_listed_only ? "yes" : "no",
          "You approve withdrawals above": limit(policy.withdraw_approval_above),
        }}
      />
      {active_from === null ? null : (
        <p role="status">Looser limits apply from {formatTime(active_from)}.</p>
      )}
      <Form
        folded="Change it"
        label="Change the limits"
        action="Change"
        done="Stricter values apply now, looser ones after the delay."
        submit={(values) => {
          const limits = LIMITS.map(([name, field]) => [field, values.unitsOrNull(name)] as const);
          const change = {
            ...Object.fromEntries(limits),
            sessions_trade: values.has("sessions"),
            withdraw_listed_only: values.has("listed"),
            ...stepUp(values),
          };
          return act((client) => client.auth.setPolicy(change));
        }}
      >
        <CheckField label="Sessions may trade" name="sessions" checked={policy.sessions_trade} />
        <CheckField
          label="Withdraw only to the address book"
          name="listed"
          checked={policy.withdraw_listed_only}
        />
        {LIMITS.map(([name, field, label]) => (
          <TextField
            key={name}
            name={name}
            label={label}
            inputMode="decimal"
            hint="Empty: no limit."
            defaultValue={policy[field] === null ? "" : formatUnits(policy[field])}
          />
        ))}
        <StepUpFields />
      </Form>
    </Part>
  );
}

function limit(amount: bigint | null): string {
  return amount === null ? "no limit" : `${formatUnits(amount)} USDC`;
}

function usage(used: bigint, most: bigint | null): string {
  return most === null ? `${formatUnits(used)} USDC` : `${formatUnits(used)} of ${limit(most)}`;
}
