/** Deposits and withdrawals: those on their way with what they wait for, and the earlier ones. */
import type { Deposit, Withdrawal } from "@rfq-custody/client";
import { type ReactNode, useState } from "react";
import { useAssetName } from "../names.ts";
import { Part, Table } from "../ui/records.tsx";
import { Id, When } from "../ui/values.tsx";
import { formatUnits } from "../units.ts";
import { useDeposits } from "./deposits.tsx";
import { useCircumstances, useWithdrawals } from "./timeline.tsx";
import { isUnfinished, STATES, whyItWaits } from "./withdrawal-state.ts";

type Move = Deposit | Withdrawal;

const SHOWN = 8;
const DEPOSIT_STATES: Record<Deposit["status"], string> = {
  confirming: "",
  credited: "credited",
  orphaned: "left the chain, not credited",
  quarantined: "held, the operator looks at it",
  below_minimum: "below the smallest deposit, waits for more",
};

export function Moves({ moving }: { moving: boolean }) {
  const deposits = useDeposits();
  const withdrawals = useWithdrawals();
  const [all, setAll] = useState(false);
  const moves = [...(deposits ?? []), ...(withdrawals ?? [])]
    .filter((move) => isMoving(move) === moving)
    .toSorted((one, other) => Date.parse(other.created_at) - Date.parse(one.created_at));
  if (moving && moves.length === 0) return null;
  const title = moving ? "Moving now" : "Deposits and withdrawals";
  const shown = all || moving ? moves : moves.slice(0, SHOWN);
  return (
    <Part title={title}>
      <Table
        caption={`${title}, newest first`}
        rows={deposits === undefined || withdrawals === undefined ? undefined : shown}
        rowKey={(move) => ("deposit_id" in move ? move.deposit_id : move.withdrawal_id)}
        empty="Nothing came in or went out yet. Deposit USDC to trade."
        columns={[
          ["What", (move) => <What move={move} />],
          ["Status", statusOf],
          ["When", ({ created_at }) => <When at={created_at} />, "number"],
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

function isMoving(move: Move): boolean {
  return "deposit_id" in move ? move.status === "confirming" : isUnfinished(move);
}

/** With the transaction of a deposit, or the destination of a withdrawal. */
function What({ move }: { move: Move }) {
  const amount = `${formatUnits(move.amount)} ${useAssetName()(move)}`;
  const isDeposit = "deposit_id" in move;
  const where = isDeposit ? move.transaction_hash : move.to_address;
  return (
    <>
      {isDeposit ? (
        `Deposit of ${amount}`
      ) : (
        <a href={`#wallet/withdraw/${move.withdrawal_id}`}>Withdrawal of {amount}</a>
      )}
      <small className="sub">
        {move.chain}, <Id id={where} />
      </small>
    </>
  );
}

function statusOf(move: Move): ReactNode {
  if (!("deposit_id" in move)) {
    if (isUnfinished(move)) return <WhyItWaits withdrawal={move} />;
    return `${STATES[move.status]}${move.failure === null ? "" : `: ${move.failure.message}`}`;
  }
  if (move.status !== "confirming") return DEPOSIT_STATES[move.status];
  const required = move.required_confirmations;
  const done = Math.min(move.confirmations, required);
  return (
    <>
      <progress aria-label="Confirmations" value={done} max={required} />{" "}
      {`${done} of ${required} confirmations`}
    </>
  );
}

function WhyItWaits({ withdrawal }: { withdrawal: Withdrawal }) {
  const circumstances = useCircumstances(withdrawal.chain);
  const waits = withdrawal.status === "awaiting_approval";
  return (
    <>
      <b className={waits ? "warn" : ""}>{STATES[withdrawal.status]}</b>
      <small className="sub">{whyItWaits(withdrawal, circumstances)}</small>
      {waits ? (
        <a className="button" href={`#wallet/withdraw/${withdrawal.withdrawal_id}`}>
          Approve or cancel
        </a>
      ) : null}
    </>
  );
}
