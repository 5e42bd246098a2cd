/** The account's policy: stricter values apply at once, looser ones after a delay. */
import type { Policy as AccountPolicy } from "@rfq-custody/client";
import { StepUpFields, stepUp } from "../account/step-up.tsx";
import { useAct, useRead } from "../session/use-service.ts";
import { Facts } from "../ui/facts.tsx";
import { CheckField, Form, type FormValues, TextField } from "../ui/form.tsx";
import { formatTime, formatUnits } from "../units.ts";

export function usePolicy() {
  return useRead(["policy"], (client) => client.auth.policy());
}

export function Policy() {
  const act = useAct("policy");
  const state = usePolicy();
  return (
    <section className="card" aria-label="Policy">
      <h2>Policy</h2>
      {state === undefined ? (
        <p role="status">Loading…</p>
      ) : (
        <>
          <Facts
            facts={{
              "Sessions may trade": state.policy.sessions_trade ? "yes" : "no",
              "Traded in 24 hours": usage(
                state.used.trade_usdc,
                state.policy.max_trade_usdc_per_day,
              ),
              "Withdrawn in 24 hours": usage(
                state.used.withdraw_usdc,
                state.policy.withdraw_max_usdc_per_day,
              ),
              "Withdrawals only to the address book": state.policy.withdraw_listed_only
                ? "yes"
                : "no",
              "Approval above": limit(state.policy.withdraw_approval_above),
            }}
          />
          {state.active_from === null ? null : (
            <p role="status">A looser policy applies from {formatTime(state.active_from)}.</p>
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
              <CheckField
                label="Sessions may trade"
                name="sessions"
                checked={state.policy.sessions_trade}
              />
              <CheckField
                label="Withdraw only to the address book"
                name="listed"
                checked={state.policy.withdraw_listed_only}
              />
              <LimitField
                name="trade"
                label="Trade at most, USDC a day"
                now={state.policy.max_trade_usdc_per_day}
              />
              <LimitField
                name="withdraw"
                label="Withdraw at most, USDC a day"
                now={state.policy.withdraw_max_usdc_per_day}
              />
              <LimitField
                name="approval"
                label="Approve withdrawals above, USDC a day"
                now={state.policy.withdraw_approval_above}
              />
              <StepUpFields />
            </Form>
          </details>
        </>
      )}
    </section>
  );
}

function LimitField({ name, label, now }: { name: string; label: string; now: bigint | null }) {
  return (
    <TextField
      name={name}
      label={label}
      inputMode="decimal"
      hint="Empty: no limit."
      defaultValue={now === null ? "" : formatUnits(now)}
    />
  );
}

function changes(values: FormValues): Partial<AccountPolicy> {
  const limitOf = (name: string) =>
    values.optional(name) === undefined ? null : values.units(name);
  return {
    sessions_trade: values.checked("sessions"),
    withdraw_listed_only: values.checked("listed"),
    max_trade_usdc_per_day: limitOf("trade"),
    withdraw_max_usdc_per_day: limitOf("withdraw"),
    withdraw_approval_above: limitOf("approval"),
  };
}

function limit(amount: bigint | null): string {
  return amount === null ? "no limit" : `${formatUnits(amount)} USDC`;
}

function usage(used: bigint, most: bigint | null): string {
  return `${formatUnits(used)} USDC of ${limit(most)}`;
}
