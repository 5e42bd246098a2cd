/** How far a withdrawal is, why it waits, and what its owner can do about it. */
import type { Withdrawal } from "@rfq-custody/client";
import { stepUp, StepUpFields } from "../account/step-up.tsx";
import { useConfig } from "../markets.ts";
import { useAssetName } from "../names.ts";
import { useAct, useList, useRead } from "../session/session.tsx";
import { ActionButton } from "../ui/actions.tsx";
import { Form } from "../ui/form.tsx";
import { clockNow } from "../ui/clock.ts";
import { fromNow, Id, When } from "../ui/values.tsx";
import { formatUnits } from "../units.ts";
import { useAddressBook, usePolicy } from "./safety.tsx";
import { type Circumstances, isUnfinished, STATES, stepsOf } from "./withdrawal-state.ts";

/** More than a user may ask for in a day. */
const RECENT = 200;

/** Newest first. */
export function useWithdrawals(): readonly Withdrawal[] | undefined {
  return useList(["withdrawals"], (client) => client.custody.withdrawals({ limit: RECENT }));
}

/** Of withdrawals on this chain. */
export function useCircumstances(chain: string | undefined): Circumstances {
  const config = useConfig();
  return {
    recent: useWithdrawals() ?? [],
    policy: usePolicy()?.policy,
    paused: config?.withdrawals_paused ?? false,
    confirmations: config?.chains.find((one) => one.chain === chain)?.required_confirmations,
    now: clockNow(),
  };
}

/** Of the withdrawal with this id, or of the newest that is not finished. */
export function Timeline({ id }: { id: string | undefined }) {
  const known = useWithdrawals()?.find((one) =>
    id === undefined ? isUnfinished(one) : one.withdrawal_id === id,
  );
  const read = useRead(
    ["withdrawals", id],
    (client) => client.custody.withdrawal({ withdrawal_id: id ?? "" }),
    { enabled: id !== undefined && known === undefined },
  );
  const withdrawal = known ?? read;
  return withdrawal === undefined ? null : <Status withdrawal={withdrawal} />;
}

function Status({ withdrawal }: { withdrawal: Withdrawal }) {
  const nameOf = useAssetName();
  const act = useAct("withdrawals", "balances", "policy");
  const circumstances = useCircumstances(withdrawal.chain);
  const { withdrawal_id, chain, to_address, status, approval_expires_at: lapses } = withdrawal;
  const book = useAddressBook();
  const entry = book?.find((one) => one.chain === chain && one.address === to_address);
  const what = `${formatUnits(withdrawal.amount)} ${nameOf(withdrawal)}`;
  const waits = status === "awaiting_approval";
  return (
    <section className="card" aria-label="Withdrawal">
      <h2>
        {what}
        {entry === undefined ? "" : ` to ${entry.label}`}
      </h2>
      {/* The whole address, because a thief can find one with the same ends. */}
      <p>
        <Id id={to_address} whole /> on {chain}
        {book === undefined || entry !== undefined ? "" : ", not in your address book"}
      </p>
      <p role="status" className={waits ? "warn" : "muted"}>
        {STATES[status]}
      </p>
      <Steps steps={stepsOf(withdrawal, circumstances)} chain={chain} />
      {waits ? (
        <Form
          label="Approve the withdrawal"
          action={`Approve ${what}`}
          submit={(values) =>
            act((client) => client.custody.approveWithdrawal({ withdrawal_id, ...stepUp(values) }))
          }
        >
          <StepUpFields />
          {lapses === null ? null : <p className="hint">It lapses {fromNow(lapses)}.</p>}
        </Form>
      ) : null}
      {waits || status === "queued" ? (
        <p>
          <ActionButton
            label="Cancel"
            done="Cancelled. The amount is yours again."
            name={`Cancel the withdrawal of ${what}`}
            run={() => act((client) => client.custody.cancelWithdrawal({ withdrawal_id }))}
          />
        </p>
      ) : null}
      <a href={`#wallet/${withdrawal_id}`}>Its ledger entries</a>
    </section>
  );
}

type StepsProps = { steps: ReturnType<typeof stepsOf>; chain: string };

export function Steps({ steps, chain }: StepsProps) {
  const explorer = useConfig()?.chains.find((one) => one.chain === chain)?.explorer;
  return (
    <ol className="timeline">
      {steps.map(({ title, note, hash, at, state }) => (
        <li key={title} className={state} aria-current={state === "now" ? "step" : undefined}>
          <b>{title}</b> {state === "done" ? <span className="sr">(done)</span> : null}
          {at === undefined ? null : <When at={at} />}
          {hash === undefined ? null : (
            <small>
              <Id id={hash} />{" "}
              {explorer ? (
                <a href={`${explorer}/tx/${hash}`} target="_blank" rel="noreferrer">
                  See it on the chain
                </a>
              ) : null}
            </small>
          )}
          {note ? <small>{note}</small> : null}
        </li>
      ))}
    </ol>
  );
}
