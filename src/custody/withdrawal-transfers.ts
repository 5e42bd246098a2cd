import { insertTransfers } from "../ledger/post.ts";
import type { Group } from "../platform/commit.ts";
import { type Sql, sql, uuid } from "../platform/sql.ts";

/** What a withdrawal moves when it is queued, when it is paid, and when it ends without payment. */
export const QUEUED = {
  reason: "withdrawal",
  step: "queue",
  from: "available",
  to: "pending",
} as const;
export const PAID = { reason: "withdrawal", step: "end", from: "pending", to: "external" } as const;
export const RETURNED = {
  reason: "release",
  step: "end",
  from: "pending",
  to: "available",
} as const;

/** One transfer of its amount for each of the withdrawals `w`, from its user to `to`. */
export function ofWithdrawals(where: Sql, to: Sql = sql`w.user_id`): Sql {
  return sql`SELECT w.user_id AS from_owner, ${to} AS to_owner, w.asset AS asset,
      w.amount AS amount, w.withdrawal_id AS ref, 0 AS line
    FROM withdrawals w WHERE ${where}`;
}

/** Returns the amounts of the withdrawals that the group has failed or cancelled. */
export function releaseEnded(group: Group, status: "failed" | "cancelled"): Sql {
  const ended = sql`w.ended_by = ${uuid(group.id)} AND w.status = ${status}`;
  return insertTransfers(group, { ...RETURNED, source: ofWithdrawals(ended) });
}
