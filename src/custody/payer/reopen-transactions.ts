/**
 * Handles a reorg below the confirmed block that removes the payer's transactions. The payer halts.
 * After the operator's `chain resume` it sends the same bytes again, which pays no id twice.
 */
import { InconsistentNode, askAny, noncesAtBlock, readHeader } from "../../chain/rpc.ts";
import { commitOrThrow, newGroup } from "../../platform/commit.ts";
import { blob, first, sql } from "../../platform/sql.ts";
import type { HeadView } from "./payer-context.ts";
import { haltPayer, hasLease } from "./payer-lease.ts";

/** Halts the payer if the chain no longer has a transaction that has ended. */
export async function haltIfRemoved(context: HeadView): Promise<boolean> {
  const { db, chain, account, usedNonces } = context;
  const row = await first<{ nonce: number }>(
    db,
    sql`SELECT nonce FROM chain_transactions
      WHERE chain = ${chain.chain} AND sender = ${blob(account.address)} AND status <> 'open'
      ORDER BY nonce DESC LIMIT 1`,
  );
  if (row === undefined || row.nonce < usedNonces) return false;
  await haltPayer(
    db,
    chain.chain,
    `the chain has used ${usedNonces} nonces, but nonce ${row.nonce} has ended in the database`,
  );
  return true;
}

/**
 * Opens ended transactions again whose nonce is unused at the confirmed block, so that they are
 * sent again. One whose batch number another transaction has taken stays ended.
 */
export async function reopenRemoved(context: HeadView): Promise<void> {
  const { db, cursor, account } = context;
  const { chain } = context.chain;
  const used = await askAny(context.chain, async (endpoint) => {
    const confirmed = await readHeader(endpoint, cursor.confirmed.number);
    if (confirmed.hash !== cursor.confirmed.hash)
      throw new InconsistentNode(`block ${cursor.confirmed.number} is not the confirmed one`);
    return noncesAtBlock(endpoint, account.address, cursor.confirmed.hash);
  });
  const group = newGroup();
  await commitOrThrow(db, group, [
    sql`UPDATE chain_transactions AS t
      SET status = 'open', ended_group = NULL, reopened_group = ${group.seq}
      WHERE t.chain = ${chain} AND t.sender = ${blob(account.address)} AND t.nonce >= ${used}
        AND (t.status = 'done' OR (t.status = 'unused' AND NOT EXISTS (
          SELECT 1 FROM chain_transactions o WHERE o.chain = t.chain
            AND o.to_address = t.to_address AND o.batch_no = t.batch_no
            AND o.transaction_id <> t.transaction_id)))
        AND ${hasLease(chain, context.token)}
        AND EXISTS (SELECT 1 FROM chain_cursors WHERE chain = ${chain} AND halted_at IS NULL
          AND confirmed_hash = ${blob(cursor.confirmed.hash)})`,
  ]);
}
