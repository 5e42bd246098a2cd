/**
 * Transactions that a reorg has removed, and those of an account that paid before. After a reorg
 * below the confirmed block the payer halts. After `chain resume` it sends the same bytes again,
 * which pays no id twice. A payment that had no effect is not sent again, because another one may
 * have used its batch number since. Its nonce must be used before later ones, so it becomes a
 * `cancel`: a transfer of nothing to the account itself (send-transaction.ts).
 *
 * The key of a former account may be gone or stolen, so its bytes are resent and never replaced.
 * They take no nonce of the new account. A payment keeps its batch number and members until the
 * confirmed chain shows that it is over. `revokeRole` for the old account ends it in any case.
 */
import { type Hex, InconsistentNode } from "../../chain/rpc.ts";
import { closedAlert } from "../../platform/alert.ts";
import { commitOrThrow, newGroup } from "../../platform/commit.ts";
import { all, blob, expr, scalar, type Sql, sql } from "../../platform/sql.ts";
import { confirmedNonces, confirmedOutcomes, confirmedPayerRole } from "./agreed-reads.ts";
import type { HeadView } from "./payer-context.ts";
import { haltPayer, hasLease, isHalted } from "./payer-lease.ts";
import { sendToAll } from "../../chain/send.ts";
import type { OpenTransaction } from "./open-transactions.ts";

/** Halts the payer if the chain lacks an ended transaction. Throws if only one endpoint says so. */
export async function haltIfRemoved(context: HeadView): Promise<boolean> {
  const { db, chain, account, usedNonces } = context;
  const ended = await scalar<number | null>(
    db,
    expr`SELECT nonce FROM chain_transactions
      WHERE chain = ${chain.chain} AND sender = ${blob(account.address)} AND status <> 'open'
      ORDER BY nonce DESC LIMIT 1`,
  );
  if (ended === null || ended < usedNonces) return false;
  const reason = `the chain has used ${usedNonces} nonces, but nonce ${ended} has ended in the database`;
  if (!context.agreed) throw new InconsistentNode(`one endpoint says that ${reason}`);
  await haltPayer(context, reason);
  return true;
}

/**
 * Carries out the payer's part of `chain resume`: reopens ended transactions whose nonce is unused
 * at the confirmed block, and ends the halt, in one batch so that nothing is resumed without them.
 * While the chain itself is halted, the command waits for the watcher. A halt that is newer than
 * the command stays, because the operator has not reviewed it.
 */
export async function resumePayer(context: HeadView): Promise<void> {
  const { db, cursor, account } = context;
  const { chain } = context.chain;
  const group = newGroup();
  // The watcher may have gone on meanwhile. What was reopened and is confirmed then ends again.
  const may = sql`${hasLease(chain, context.token)}
    AND EXISTS (SELECT 1 FROM chain_cursors WHERE chain = ${chain} AND halted_at IS NULL
      AND (confirmed_number > ${cursor.confirmed.number}
        OR confirmed_hash = ${blob(cursor.confirmed.hash)}))`;
  const halted = isHalted(chain);
  const reopen = async (sender: Hex, which: Sql) =>
    sql`UPDATE chain_transactions SET status = 'open', ended_group = NULL,
        kind = iif(status = 'unused', 'cancel', kind), reopened_group = ${group.seq}
      WHERE chain = ${chain} AND sender = ${blob(sender)}
        AND nonce >= ${await confirmedNonces(context, sender)} AND ${which} AND ${may}`;
  const reopened = [await reopen(account.address, sql`status <> 'open'`)];
  // Of a former account only payments: they hold batch numbers, and the rest is made anew.
  for (const sender of await formerSenders(context))
    reopened.push(await reopen(sender, sql`status = 'done' AND kind = 'pay'`));
  await commitOrThrow(db, group, [
    ...reopened,
    sql`UPDATE payer_leases SET halted_at = NULL, halt_reason = NULL
      WHERE chain = ${chain} AND ${may} AND halted_at <= (SELECT max(at) FROM chain_commands
        WHERE chain = ${chain} AND kind = 'resume_payer' AND done_group IS NULL)`,
    closedAlert(group, "payer_halted", chain, sql`${may} AND NOT ${halted}`),
    sql`UPDATE chain_commands SET done_group = ${group.seq},
        result = iif(${halted}, 'halted again', 'resumed')
      WHERE chain = ${chain} AND kind = 'resume_payer' AND done_group IS NULL AND ${may}`,
  ]);
}

export function byAccount({ account }: HeadView, open: readonly OpenTransaction[]) {
  const current = account.address.toLowerCase();
  return Object.groupBy(open, ({ sender }) => (sender === current ? "own" : "former"));
}

/** The former accounts of the chain. Seeks from one to the next, because there are many rows. */
async function formerSenders({ db, chain, account }: HeadView): Promise<Hex[]> {
  const after = (sender: Sql) =>
    sql`SELECT min(sender) FROM chain_transactions WHERE chain = ${chain.chain} AND ${sender}`;
  const rows = await all<{ sender: string }>(
    db,
    sql`WITH RECURSIVE s(sender) AS (${after(sql`1`)} UNION ALL
        SELECT (${after(sql`sender > s.sender`)}) FROM s WHERE s.sender IS NOT NULL)
      SELECT lower(hex(sender)) AS sender FROM s
      WHERE sender IS NOT NULL AND sender <> ${blob(account.address)}`,
  );
  return rows.map(({ sender }) => `0x${sender}` as const);
}

/** Whether the transaction can have no effect any more, or none that the new account needs. */
export async function isOver(context: HeadView, transaction: OpenTransaction): Promise<boolean> {
  const { kind, sender, nonce, to, batchNo } = transaction;
  // Sweeps and voids are made again: the second one has no effect.
  if (kind !== "pay" || batchNo === null) return true;
  if (nonce < (await confirmedNonces(context, sender))) return true;
  if ((await confirmedOutcomes(context, to, [])).nextBatchNo > batchNo) return true;
  return !(await confirmedPayerRole(context, to, sender));
}

/** Refusals raise no alert, because nobody can act on them without the old key. */
export async function resendFormer(
  { chain }: HeadView,
  former: readonly OpenTransaction[],
): Promise<void> {
  // The account's other transactions end. A `cancel` may be the payment that must not be sent.
  for (const { raw } of former.filter(({ kind }) => kind === "pay")) await sendToAll(chain, raw);
}
