/** Writes custody events: one per record that a group changed, on its owner's account stream. */
import type { Group } from "../platform/commit.ts";
import { jsonObject, type Sql, sql } from "../platform/sql.ts";
import { accountStreamOf, announce } from "../streams/event-log.ts";
import { DEPOSIT, WITHDRAWAL } from "./records.ts";

/** A deposit that is detected and ended by the same group is announced only by its end. */
export function announceDeposits(group: Group): Sql[] {
  return announce(
    group,
    sql`SELECT ${accountStreamOf("d.user_id")} AS stream, 'deposit.' || d.status AS type,
        ${jsonObject(DEPOSIT)} AS body, hex(d.deposit_id) AS ord
      FROM deposits d WHERE d.ended_group = ${group.seq}
      UNION ALL
      SELECT ${accountStreamOf("d.user_id")}, 'deposit.detected', ${jsonObject(DEPOSIT)}, hex(d.deposit_id)
      FROM deposits d WHERE d.detected_group = ${group.seq} AND d.ended_group IS NULL`,
  );
}

/** Every change of a withdrawal sets `changed_group`: its insertion, its status, a new hash. */
export function announceWithdrawals(group: Group): Sql[] {
  return announce(
    group,
    sql`SELECT ${accountStreamOf("w.user_id")} AS stream, 'withdrawal.' || w.status AS type,
        ${jsonObject(WITHDRAWAL)} AS body, hex(w.withdrawal_id) AS ord
      FROM withdrawals w WHERE w.changed_group = ${group.seq}`,
  );
}
