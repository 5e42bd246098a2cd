/** Fails withdrawals that the vault can never pay, and returns their funds. */
import { transfer } from "../../ledger/post.ts";
import type { Group } from "../../platform/commit.ts";
import { type Sql, sql, uuid } from "../../platform/sql.ts";
import { FAILURE_MESSAGES } from "../payment-records.ts";
import { decidesIn, PAID_OTHERWISE } from "./settle-withdrawal.ts";

/**
 * Applies `Failed` and `Voided` events of the confirmed height. After either the vault never pays
 * the id, so the reserved funds are released.
 */
export function failUnpayable(group: Group): Sql[] {
  return [
    sql`UPDATE withdrawals SET status = 'failed', transaction_hash = e.transaction_hash,
        updated_at = ${group.at}, changed_group = ${group.seq}, ended_by = ${uuid(group.id)},
        failure_code = iif(e.kind = 'Failed', 'payment_reverted', 'operator_failed'),
        failure_message = iif(e.kind = 'Failed',
          ${FAILURE_MESSAGES.payment_reverted}, ${FAILURE_MESSAGES.operator_failed})
      FROM vault_events e INDEXED BY vault_events_payment
      WHERE ${decidesIn(group)} AND e.kind IN ('Failed', 'Voided')
        AND e.payment_id = withdrawals.payment_id AND e.chain = withdrawals.chain
        AND withdrawals.status IN ('awaiting_approval', 'queued', 'submitted')`,
    releaseFailed(group),
  ];
}

/**
 * Carries out `fail` commands for ids whose payment does not settle the withdrawal. The vault never
 * pays such an id again, so no void is needed. These transfers do not account for what it did pay.
 */
export function failPaidOtherwise(group: Group, chain: string): Sql[] {
  return [
    sql`UPDATE withdrawals AS w SET status = 'failed', transaction_hash = NULL,
        updated_at = ${group.at}, changed_group = ${group.seq}, ended_by = ${uuid(group.id)},
        failure_code = 'operator_failed', failure_message = ${FAILURE_MESSAGES.operator_failed}
      WHERE w.chain = ${chain} AND w.status IN ('awaiting_approval', 'queued', 'submitted')
        AND EXISTS (SELECT 1 FROM chain_commands c WHERE c.withdrawal_id = w.withdrawal_id
          AND c.kind = 'fail' AND c.done_group IS NULL)
        AND EXISTS (SELECT 1 FROM vault_events e WHERE ${PAID_OTHERWISE})
        AND NOT EXISTS (SELECT 1 FROM batch_members m
          WHERE m.withdrawal_id = w.withdrawal_id AND m.ended_group IS NULL)`,
    releaseFailed(group),
  ];
}

function releaseFailed(group: Group): Sql {
  return transfer(group, {
    reason: "release",
    step: "end",
    from: "pending",
    to: "available",
    source: sql`SELECT w.user_id AS from_owner, w.user_id AS to_owner, w.asset AS asset,
        w.amount AS amount, w.withdrawal_id AS ref, 0 AS line
      FROM withdrawals w WHERE w.ended_by = ${uuid(group.id)} AND w.status = 'failed'`,
  });
}
