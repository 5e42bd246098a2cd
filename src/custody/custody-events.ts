/** Renders deposit and withdrawal events. An event has the columns of the record's row. */
import type { EventRow } from "../platform/event-forms.ts";
import type { EventTable } from "../streams/render.ts";
import { CUSTODY_FORMS } from "./custody-event-forms.ts";
import {
  type DepositRow,
  depositView,
  type WithdrawalRow,
  withdrawalView,
} from "./payment-records.ts";

export const CUSTODY_EVENTS: EventTable = {
  forms: CUSTODY_FORMS,
  views: {
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
  },
};

/** Safe casts: announce-custody.ts writes the columns of the row types (payment-records.ts). */
function deposit(row: EventRow): ReturnType<typeof depositView> {
  return depositView(row as DepositRow);
}

function withdrawal(row: EventRow): ReturnType<typeof withdrawalView> {
  return withdrawalView(row as WithdrawalRow);
}
