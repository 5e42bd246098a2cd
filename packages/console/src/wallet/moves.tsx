/** Deposits and withdrawals: those on their way with what they wait for, and the earlier ones. */
import type { Deposit, Withdrawal } from "@rfq-custody/client";
import { type ReactNode, useState } from "react";
import { useAssetName } from "../markets.ts";
import { Table } from "../ui/table.tsx";
import { When } from "../ui/times.tsx";
import { Part } from "../ui/facts.tsx";
import { formatUnits, shortId } from "../units.ts";
import { useDeposits } from "./deposits.tsx";
import { useCircumstances, useWithdrawals } from "./timeline.tsx";
import { isUnfinished, STATES, whyItWaits } from "./withdrawal-state.ts";

type Move = {
  id: string;
  at: string;
  moving: boolean;
  what: ReactNode;
  /** The transaction of a deposit, the destination of a withdrawal. */
  where: string;
  chain: string;
  status: ReactNode;
};

const SHOWN = 8;
const DEPOSIT_STATES: Record<Deposit["status"], string> = {
  confirming: "",
  credited: "credited",
  orphaned: "left the chain, not credited",
  quarantined: "held, the operator looks at it",
  below_minimum: "below the smallest deposit, waits for more",
};

/** Those that are `moving`, or the others. */
export function Moves({ moving }: { moving: boolean }) {
  const nameOf = useAssetName();
  const deposits = useDeposits();
  const withdrawals = useWithdrawals();
  const [all, setAll] = useState(false);
  const amountOf = (move: Deposit | Withdrawal) => `${formatUnits(move.amount)} ${nameOf(move)}`;
  const moves = [
    ...(deposits ?? []).map((deposit) => moveIn(deposit, amountOf(deposit))),
    ...(withdrawals ?? []).map((withdrawal) => moveOut(withdrawal, amountOf(withdrawal))),
  ]
    .filter((move) => move.moving === moving)
    .toSorted((one, other) => Date.parse(other.at) - Date.parse(one.at));
  if (moving && moves.length === 0) return null;
  const title = moving ? "Moving now" : "Deposits and withdrawals";
  const shown = all || moving ? moves : moves.slice(0, SHOWN);
  return (
    <Part title={title}>
      <Table
        caption={`${title}, newest first`}
        rows={deposits === undefined || withdrawals === undefined ? undefined : shown}
        rowKey={({ id }) => id}
        empty="Nothing came in or went out yet. Deposit USDC to trade."
        columns={[
          [
            "What",
            ({ what, chain, where }) => (
              <>
                {what}
                <small className="sub">
                  {chain}, <code title={where}>{shortId(where)}</code>
                </small>
              </>
            ),
          ],
          ["Status", ({ status }) => status],
          ["When", ({ at }) => <When at={at} />, "number"],
        ]}
      />
      {shown.length === moves.length ? null : (
        <button type="button" onClick={() => setAll(true)}>
          Show {moves.length - SHOWN} more
        </button>
      )}
    </Part>
  );
}

function moveIn(deposit: Deposit, amount: string): Move {
  const { deposit_id: id, created_at: at, chain, status, transaction_hash: where } = deposit;
  const moving = status === "confirming";
  const what = `Deposit of ${amount}`;
  if (!moving) return { id, at, moving, what, where, chain, status: DEPOSIT_STATES[status] };
  const required = deposit.required_confirmations;
  const done = Math.min(deposit.confirmations, required);
  const progress = (
    <>
      <progress aria-label="Confirmations" value={done} max={required} />{" "}
      {`${done} of ${required} confirmations`}
    </>
  );
  return { id, at, moving, what, where, chain, status: progress };
}

function moveOut(withdrawal: Withdrawal, amount: string): Move {
  const { withdrawal_id: id, created_at: at, chain, to_address: where, failure } = withdrawal;
  const moving = isUnfinished(withdrawal);
  const what = <a href={`#wallet/withdraw/${id}`}>Withdrawal of {amount}</a>;
  const ended = `${STATES[withdrawal.status]}${failure === null ? "" : `: ${failure.message}`}`;
  const status = moving ? <WhyItWaits withdrawal={withdrawal} /> : ended;
  return { id, at, moving, what, where, chain, status };
}

function WhyItWaits({ withdrawal }: { withdrawal: Withdrawal }) {
  const circumstances = useCircumstances(withdrawal.chain);
  return (
    <>
      <b className={withdrawal.status === "awaiting_approval" ? "warn" : ""}>
        {STATES[withdrawal.status]}
      </b>
      <small className="sub">{whyItWaits(withdrawal, circumstances)}</small>
      {withdrawal.status === "awaiting_approval" ? (
        <a className="button" href={`#wallet/withdraw/${withdrawal.withdrawal_id}`}>
          Approve or cancel
        </a>
      ) : null}
    </>
  );
}
