/** The wire form of deposit and withdrawal events. A body is the record's row as JSON text (records.ts). */
import type { EventViews } from "../streams/render.ts";
import { type DepositRow, depositView, type WithdrawalRow, withdrawalView } from "./records.ts";

export const CUSTODY_EVENTS: EventViews = {
  "deposit.detected": deposit,
  "deposit.credited": deposit,
  "deposit.orphaned": deposit,
  "deposit.quarantined": deposit,
  "withdrawal.queued": withdrawal,
  "withdrawal.submitted": withdrawal,
  "withdrawal.settled": withdrawal,
  "withdrawal.failed": withdrawal,
};

/** Safe cast: announce.ts writes the columns of the row type. */
function deposit(body: string): ReturnType<typeof depositView> {
  return depositView(JSON.parse(body) as DepositRow);
}

function withdrawal(body: string): ReturnType<typeof withdrawalView> {
  return withdrawalView(JSON.parse(body) as WithdrawalRow);
}
