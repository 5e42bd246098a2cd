/**
 * A nonce that the confirmed chain has used is over, whoever used it. The vault's events up to there have been applied
 * with the watcher's cursor, so a member that is still live was not touched by any of them, and goes back to the queue.
 */
import { NodeDisagrees, askAny, noncesAtBlock, readHeader } from "../../chain/rpc.ts";
import { PAYMENT_STATE, readOutcomes } from "../../chain/vault.ts";
import { commit, newGroup } from "../../platform/commit.ts";
import { sql, uuid } from "../../platform/sql.ts";
import { eventsToPush, type LoggedEvent } from "../../streams/event-log.ts";
import { announceWithdrawals } from "../announce.ts";
import { liveMembers, type OpenTransaction } from "./open-transactions.ts";
import { haltPayer, hasLease } from "./payer-lease.ts";
import type { Desk } from "./payer-context.ts";

export async function endFinal(desk: Desk, transaction: OpenTransaction): Promise<void> {
  const { db, chain, cursor, account } = desk;
  if (transaction.nonce >= desk.usedNonces) return;
  const ids = await liveMembers(db, transaction.id);
  const judged = await askAny(chain, async (endpoint) => {
    const final = await readHeader(endpoint, cursor.final.number);
    if (final.hash !== cursor.final.hash)
      throw new NodeDisagrees(`block ${cursor.final.number} is not the confirmed one`);
    const used = await noncesAtBlock(endpoint, account.address, cursor.final.hash);
    return used > transaction.nonce ? readOutcomes(endpoint, chain, ids, cursor.final.hash) : null;
  });
  if (judged === null) return;
  if (judged.states.some((state) => state !== PAYMENT_STATE.none)) {
    await haltPayer(
      db,
      chain.chain,
      `the vault has an outcome for a member of nonce ${transaction.nonce} that its events do not show`,
    );
    return;
  }
  const consumed = transaction.batchNo === null || judged.nextBatchNo > transaction.batchNo;
  await endTransaction(desk, transaction, consumed ? "done" : "unused");
}

async function endTransaction(
  desk: Desk,
  transaction: OpenTransaction,
  state: "done" | "unused",
): Promise<void> {
  const { chain } = desk.chain;
  const group = newGroup();
  const ended = sql`SELECT 1 FROM chain_transactions t WHERE t.transaction_id = ${uuid(transaction.id)} AND t.ended_in = ${group.seq}`;
  const result = await commit(desk.db, group, [
    sql`UPDATE chain_transactions SET state = ${state}, ended_in = ${group.seq}
      WHERE transaction_id = ${uuid(transaction.id)} AND state = 'open' AND ${hasLease(chain, desk.token)}
        AND EXISTS (SELECT 1 FROM chain_cursors WHERE chain = ${chain} AND final_number >= ${desk.cursor.final.number})`,
    sql`UPDATE batch_members SET ended_in = ${group.seq}, outcome = 'returned'
      WHERE transaction_id = ${uuid(transaction.id)} AND ended_in IS NULL AND EXISTS (${ended})`,
    sql`UPDATE withdrawals SET state = 'queued', transaction_hash = NULL, updated_at = ${group.at}, changed_in = ${group.seq}
      WHERE state = 'submitted' AND withdrawal_id IN (SELECT withdrawal_id FROM batch_members
        WHERE transaction_id = ${uuid(transaction.id)} AND purpose = 'pay' AND outcome = 'returned' AND ended_in = ${group.seq})`,
    sql`UPDATE alerts SET resolved_at = ${group.at}
      WHERE kind = 'fee_ceiling' AND subject = ${`${chain}:${transaction.nonce}`} AND resolved_at IS NULL`,
    ...announceWithdrawals(group),
    eventsToPush(group),
  ]);
  if (!result.committed)
    throw new Error(`a transaction of ${chain} was not ended`, { cause: result.cause });
  await desk.push((result.rows?.at(-1) ?? []).map((row) => row as LoggedEvent));
}
