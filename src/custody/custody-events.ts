/** One event per record that a group changed, on its owner's stream (platform/event-forms.ts). */
import type { Group } from "../platform/commit.ts";
import { storedEvent, type EventForm, type EventRow } from "../platform/event-forms.ts";
import { expr, type Sql, sql } from "../platform/sql.ts";
import { announce } from "../platform/announce.ts";
import {
  DEPOSIT,
  WITHDRAWAL,
  type DepositRow,
  depositView,
  type WithdrawalRow,
  withdrawalView,
} from "./payment-records.ts";
import type { EventTable } from "../streams/render.ts";

/** The event of a deposit's status, over `deposits d`. */
export function depositChanged(): Sql {
  return storedEvent(DEPOSIT_CHANGED, expr`'deposit.' || d.status`, DEPOSIT);
}

/** A deposit that is detected and ended by the same group is announced only by its end. */
export function announceDeposits(group: Group): Sql[] {
  return announce(
    group,
    sql`SELECT d.user_id AS stream, ${depositChanged()},
        hex(d.deposit_id) AS ord
      FROM deposits d WHERE d.ended_group = ${group.seq}
      UNION ALL
      SELECT d.user_id,
        ${storedEvent(DEPOSIT_CHANGED, "deposit.detected", DEPOSIT)}, hex(d.deposit_id)
      FROM deposits d WHERE d.detected_group = ${group.seq} AND d.ended_group IS NULL`,
  );
}

/** Every change of a withdrawal sets `changed_group`: its insertion, its status, a new hash. */
export function announceWithdrawals(group: Group): Sql[] {
  return announce(
    group,
    sql`SELECT w.user_id AS stream,
        ${storedEvent(WITHDRAWAL_CHANGED, expr`'withdrawal.' || w.status`, WITHDRAWAL)},
        hex(w.withdrawal_id) AS ord
      FROM withdrawals w WHERE w.changed_group = ${group.seq}`,
  );
}

const DEPOSIT_CHANGED = {
  codes: {
    "deposit.detected": 11,
    "deposit.credited": 12,
    "deposit.orphaned": 13,
    "deposit.quarantined": 14,
    "deposit.below_minimum": 15,
  },
  ids: { deposit_id: 16 },
  values: [
    "chain",
    "address",
    "asset",
    "amount",
    "transaction_hash",
    "block_number",
    "confirmations",
    "required_confirmations",
    "status",
    "detected_at",
    "credited_at",
  ],
} as const satisfies EventForm;

const WITHDRAWAL_CHANGED = {
  codes: {
    "withdrawal.awaiting_approval": 16,
    "withdrawal.queued": 17,
    "withdrawal.submitted": 18,
    "withdrawal.settled": 19,
    "withdrawal.failed": 20,
    "withdrawal.cancelled": 21,
  },
  ids: { withdrawal_id: 16, job_id: 16 },
  values: [
    "client_withdrawal_id",
    "chain",
    "asset",
    "amount",
    "to_address",
    "status",
    "created_at",
    "updated_at",
    "approval_expires_at",
    "transaction_hash",
    "failure_code",
    "failure_message",
  ],
} as const satisfies EventForm;

export const CUSTODY_FORMS: readonly EventForm[] = [DEPOSIT_CHANGED, WITHDRAWAL_CHANGED];

/** Safe casts: the events above have the columns of the row types (payment-records.ts). */
export const CUSTODY_EVENTS: EventTable = {
  forms: CUSTODY_FORMS,
  views: {
    ...viewsOf(DEPOSIT_CHANGED, (row) => depositView(row as DepositRow)),
    ...viewsOf(WITHDRAWAL_CHANGED, (row) => withdrawalView(row as WithdrawalRow)),
  },
};

function viewsOf(form: EventForm, view: (row: EventRow) => Record<string, unknown>) {
  return Object.fromEntries(Object.keys(form.codes).map((type) => [type, view]));
}
