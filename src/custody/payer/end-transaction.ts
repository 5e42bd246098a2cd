/**
 * Ends transactions whose nonce was used at the confirmed height, even by another transaction. The
 * watcher has applied the vault's events up to that height, so a member without an outcome was not
 * paid and returns to the queue.
 */
import { PAYMENT_STATE } from "../../chain/vault-calls.ts";
import { closedAlert } from "../../platform/alert.ts";
import { newGroup } from "../../platform/commit.ts";
import { sql, uuid } from "../../platform/sql.ts";
import { pushOrThrow } from "../../streams/event-log.ts";
import { announceWithdrawals } from "../custody-events.ts";
import { confirmedNonces, confirmedOutcomes } from "./agreed-reads.ts";
import { byAccount, isOver } from "./reopen-transactions.ts";
import { liveMembers, type OpenTransaction } from "./open-transactions.ts";
import { haltPayer, haltRows, hasLease } from "./payer-lease.ts";
import type { HeadView } from "./payer-context.ts";

/** Ends those of the open transactions that the confirmed chain has decided. */
export async function endConfirmed(
  context: HeadView,
  open: readonly OpenTransaction[],
): Promise<void> {
  const { former = [], own = [] } = byAccount(context, open);
  for (const transaction of former)
    if (await isOver(context, transaction)) await endUnlessPaid(context, transaction);
  const mined = own.filter(({ nonce }) => nonce < context.usedNonces);
  if (mined.length === 0) return;
  const used = await confirmedNonces(context, context.account.address);
  for (const transaction of mined)
    if (transaction.nonce < used) await endUnlessPaid(context, transaction);
}

/** Ends a transaction that is decided, unless the vault knows more of it than its events. */
async function endUnlessPaid(context: HeadView, transaction: OpenTransaction): Promise<void> {
  const { chain } = context;
  if (transaction.kind === "cancel") return endTransaction(context, transaction, "unused");
  const ids = await liveMembers(context.db, transaction.id);
  if (ids.length === 0 && transaction.batchNo === null)
    return endTransaction(context, transaction, "done");
  // A payment or void may still be one of a previous vault's.
  const toVault = transaction.kind === "pay" || transaction.kind === "void";
  const vault = toVault ? transaction.to : chain.vault;
  const outcomes = await confirmedOutcomes(context, vault, ids);
  const member = `a member of nonce ${transaction.nonce}`;
  if (outcomes.states.some((state) => state !== PAYMENT_STATE.none))
    return haltPayer(context, `the vault has an outcome for ${member} but no event for it`);
  const consumed = transaction.batchNo === null || outcomes.nextBatchNo > transaction.batchNo;
  await endTransaction(context, transaction, consumed ? "done" : "unused");
}

async function endTransaction(
  context: HeadView,
  transaction: OpenTransaction,
  status: "done" | "unused",
): Promise<void> {
  const { chain } = context.chain;
  const group = newGroup();
  const ended = sql`SELECT 1 FROM chain_transactions t
    WHERE t.transaction_id = ${uuid(transaction.id)} AND t.ended_group = ${group.seq}`;
  // Sent again after a deep reorg, but without effect this time, for instance past its deadline.
  // In this batch, because a transaction ends only once, so a halt that is lost would never return.
  const unpaid = sql`${status} = 'unused' AND EXISTS (${ended}) AND EXISTS (
    SELECT 1 FROM batch_members
    WHERE transaction_id = ${uuid(transaction.id)} AND outcome = 'Paid')`;
  await pushOrThrow(context, group, [
    sql`UPDATE chain_transactions SET status = ${status}, ended_group = ${group.seq}
      WHERE transaction_id = ${uuid(transaction.id)} AND status = 'open'
        AND ${hasLease(chain, context.token)}
        AND EXISTS (SELECT 1 FROM chain_cursors
          WHERE chain = ${chain} AND confirmed_number >= ${context.cursor.confirmed.number})`,
    sql`UPDATE batch_members SET ended_group = ${group.seq}, outcome = 'returned'
      WHERE transaction_id = ${uuid(transaction.id)} AND ended_group IS NULL AND EXISTS (${ended})`,
    sql`UPDATE withdrawals SET status = 'queued', transaction_hash = NULL,
        updated_at = ${group.at}, changed_group = ${group.seq}
      WHERE status = 'submitted' AND withdrawal_id IN (SELECT withdrawal_id FROM batch_members
        WHERE transaction_id = ${uuid(transaction.id)} AND purpose = 'pay'
          AND outcome = 'returned' AND ended_group = ${group.seq})`,
    closedAlert(group, "fee_ceiling", `${chain}:${transaction.nonce}`),
    ...haltRows(group, chain, {
      reason: `nonce ${transaction.nonce} no longer pays withdrawals that are settled`,
      when: unpaid,
    }),
    ...announceWithdrawals(group),
  ]);
}
