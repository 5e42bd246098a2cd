/** Writes custody events: one per record that a group changed, on its owner's account stream. */
import type { Group } from "../platform/commit.ts";
import { storedEvent } from "../platform/event-forms.ts";
import { expr, type Sql, sql } from "../platform/sql.ts";
import { announce } from "../streams/event-log.ts";
import { DEPOSIT_CHANGED, WITHDRAWAL_CHANGED } from "./custody-event-forms.ts";
import { DEPOSIT, WITHDRAWAL } from "./payment-records.ts";

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
