import { transfer } from "../../ledger/post.ts";
import type { Group } from "../../platform/commit.ts";
import { type Sql, sql, uuid } from "../../platform/sql.ts";
import { decidesIn } from "./settle-withdrawal.ts";

/**
 * Funds go back only when the vault says, at the confirmed height, that the id can never be paid: the payment failed
 * for ever, or the operator had it voided.
 */
export function failUnpayable(group: Group): Sql[] {
  return [
    sql`UPDATE withdrawals SET status = 'failed', transaction_hash = e.transaction_hash, updated_at = ${group.at}, changed_group = ${group.seq},
        ended_by = ${uuid(group.id)}, failure_code = iif(e.kind = 'Failed', 'payment_reverted', 'operator_failed'),
        failure_message = iif(e.kind = 'Failed', 'The destination or the token refused the payment.', 'The operator cancelled the withdrawal.')
      FROM vault_events e
      WHERE ${decidesIn(group)} AND e.kind IN ('Failed', 'Voided') AND e.payment_id = withdrawals.payment_id AND e.chain = withdrawals.chain
        AND withdrawals.status IN ('queued', 'submitted')`,
    transfer(group, {
      reason: "release",
      step: "end",
      from: "pending",
      to: "available",
      source: sql`SELECT w.user_id AS from_owner, w.user_id AS to_owner, w.asset AS asset, w.amount AS amount, w.withdrawal_id AS ref, 0 AS line
        FROM withdrawals w WHERE w.ended_by = ${uuid(group.id)} AND w.status = 'failed'`,
    }),
  ];
}
