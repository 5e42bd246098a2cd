/** The account's policy: stricter values apply at once, looser ones after a delay. */
import type { Policy as AccountPolicy } from "@rfq-custody/client";
import { StepUpFields, stepUp } from "../account/step-up.tsx";
import { useAct, useRead } from "../session/use-service.ts";
import { Facts, Part } from "../ui/facts.tsx";
import { CheckField, Form, type FormValues, TextField } from "../ui/form.tsx";
import { formatTime, formatUnits } from "../units.ts";

const LIMITS = [
  ["trade", "max_trade_usdc_per_day", "Trade at most, USDC a day"],
  ["withdraw", "withdraw_max_usdc_per_day", "Withdraw at most, USDC a day"],
  ["approval", "withdraw_approval_above", "Approve withdrawals above, USDC a day"],
] as const;

export function usePolicy() {
  return useRead(["policy"], (client) => client.auth.policy());
}

export function Policy() {
  const act = useAct("policy");
  const state = usePolicy();
  if (state === undefined) return <p role="status">Loading your policy…</p>;
  const { policy, used, active_from } = state;
  return (
    <Part title="Policy">
      <Facts
        facts={{
          "Sessions may trade": policy.sessions_trade ? "yes" : "no",
          "Traded in 24 hours": usage(used.trade_usdc, policy.max_trade_usdc_per_day),
          "Withdrawn in 24 hours": usage(used.withdraw_usdc, policy.withdraw_max_usdc_per_day),
          "Withdrawals only to the address book": policy.withdraw_listed_only ? "yes" : "no",
          "Approval above": limit(policy.withdraw_approval_above),
        }}
      />
      {active_from === null ? null : (
        <p role="status">A looser policy applies from {formatTime(active_from)}.</p>
      )}
      <details>
        <summary>Change it</summary>
        <Form
          label="Change the policy"
          action="Change"
          done="Stricter values apply now, looser ones after the delay."
          submit={(values) => {
            const change = { ...changes(values), ...stepUp(values) };
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
      </details>
    </Part>
  );
}

function changes(values: FormValues): Partial<AccountPolicy> {
  const limits = LIMITS.map(([name, field]) => [
    field,
    values.optional(name) === undefined ? null : values.units(name),
  ]);
  return {
    sessions_trade: values.checked("sessions"),
    withdraw_listed_only: values.checked("listed"),
    ...Object.fromEntries(limits),
  };
}

function limit(amount: bigint | null): string {
  return amount === null ? "no limit" : `${formatUnits(amount)} USDC`;
}

function usage(used: bigint, most: bigint | null): string {
  return `${formatUnits(used)} USDC of ${limit(most)}`;
}
