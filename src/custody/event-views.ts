/** Renders deposit and withdrawal events. An event's body is the record's row as JSON text. */
import type { EventViews } from "../streams/render.ts";
import { type DepositRow, depositView, type WithdrawalRow, withdrawalView } from "./records.ts";

export const CUSTODY_EVENTS: EventViews = {
  "deposit.detected": deposit,
  "deposit.credited": deposit,
  "deposit.orphaned": deposit,
  "deposit.quarantined": deposit,
  "deposit.below_minimum": deposit,
  "withdrawal.awaiting_approval": withdrawal,
  "withdrawal.queued": withdrawal,
  "withdrawal.submitted": withdrawal,
  "withdrawal.settled": withdrawal,
  "withdrawal.failed": withdrawal,
  "withdrawal.cancelled": withdrawal,
};

/** Safe casts: announce.ts writes the columns of the row types (records.ts). */
function deposit(body: string): ReturnType<typeof depositView> {
  return depositView(JSON.parse(body) as DepositRow);
}

function withdrawal(body: string): ReturnType<typeof withdrawalView> {
  return withdrawalView(JSON.parse(body) as WithdrawalRow);
}
