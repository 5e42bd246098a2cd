/** The operator's commands about withdrawals are rows; the payer carries them out, and the chain has the last word. */
import { MAX_VOIDS, voidCall } from "../../chain/vault.ts";
import { commit, newGroup } from "../../platform/commit.ts";
import { all, readUuid, sql } from "../../platform/sql.ts";
import type { HeadView, PayerContext } from "./payer-context.ts";
import { makeTransaction } from "./make-transaction.ts";

/** Orders that need no transaction, and those whose withdrawal has come to its end. */
export async function closeCommands({ db, chain }: PayerContext): Promise<void> {
  const [open] = await all<{ n: number }>(
    db,
    sql`SELECT count(*) AS n FROM chain_commands WHERE chain = ${chain.chain} AND kind <> 'resume_chain' AND done_group IS NULL`,
  );
  if (open?.n === 0) return;
  const group = newGroup();
  const mine = sql`chain = ${chain.chain} AND done_group IS NULL`;
  await commit(db, group, [
    sql`UPDATE chain_commands SET done_group = ${group.seq}, result = w.status FROM withdrawals w
      WHERE chain_commands.chain = ${chain.chain} AND done_group IS NULL AND kind = 'fail' AND w.withdrawal_id = chain_commands.withdrawal_id
        AND w.status IN ('settled', 'failed')`,
    sql`UPDATE withdrawals SET not_before = NULL WHERE status = 'queued' AND withdrawal_id IN (
      SELECT withdrawal_id FROM chain_commands WHERE ${mine} AND kind = 'retry')`,
    sql`UPDATE chain_commands SET done_group = ${group.seq}, result = 'retried' WHERE ${mine} AND kind = 'retry'`,
    sql`UPDATE payer_leases SET halted_at = NULL, halt_reason = NULL WHERE chain = ${chain.chain} AND EXISTS (
      SELECT 1 FROM chain_commands WHERE ${mine} AND kind = 'resume_payer')`,
    sql`UPDATE alerts SET resolved_at = ${group.at} WHERE kind = 'payer_halted' AND subject = ${chain.chain} AND resolved_at IS NULL AND EXISTS (
      SELECT 1 FROM chain_commands WHERE ${mine} AND kind = 'resume_payer')`,
    sql`UPDATE chain_commands SET done_group = ${group.seq}, result = 'resumed' WHERE ${mine} AND kind = 'resume_payer'`,
  ]);
}

/** `fail`: the id is voided on the chain; the funds go back when the watcher has read that at the confirmed height. */
export async function voidCommandedPayments(context: HeadView): Promise<boolean> {
  const rows = await all<{ id: string; payment: string }>(
    context.db,
    sql`SELECT DISTINCT hex(w.withdrawal_id) AS id, lower(hex(w.payment_id)) AS payment FROM chain_commands c
      JOIN withdrawals w ON w.withdrawal_id = c.withdrawal_id AND w.chain = c.chain
      WHERE c.chain = ${context.chain.chain} AND c.kind = 'fail' AND c.done_group IS NULL AND w.status IN ('queued', 'submitted')
        AND NOT EXISTS (SELECT 1 FROM batch_members m WHERE m.withdrawal_id = w.withdrawal_id AND m.purpose = 'void' AND m.ended_group IS NULL)
      LIMIT ${MAX_VOIDS}`,
  );
  if (rows.length === 0) return false;
  const call = await voidCall(
    context.endpoint,
    context.chain,
    rows.map((row) => `0x${row.payment}` as const),
  );
  return makeTransaction(context, {
    kind: "void",
    call,
    batchNo: null,
    members: rows.map((row) => readUuid(row.id)),
  });
}
