/**
 * Open transactions of an account that paid before the operator account was changed. Its key may be
 * gone or stolen, so their bytes are resent and never replaced. They take no nonce of the new
 * account. The batch number and the members of a payment stay taken until the confirmed chain shows
 * that it is over. `revokeRole` for the old account ends it in any case.
 */
import type { Hex } from "../../chain/rpc.ts";
import { sendToAll } from "../../chain/send.ts";
import { all, blob, type Sql, sql } from "../../platform/sql.ts";
import { confirmedNonces, confirmedOutcomes, confirmedPayerRole } from "./agreed-reads.ts";
import type { OpenTransaction } from "./open-transactions.ts";
import type { HeadView } from "./payer-context.ts";

export function isFormer({ account }: HeadView, { sender }: OpenTransaction): boolean {
  return sender !== account.address.toLowerCase();
}

/** The former accounts of the chain. Seeks from one to the next, because there are many rows. */
export async function formerSenders({ db, chain, account }: HeadView): Promise<Hex[]> {
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
  // Its other open transactions end. A `cancel` may still be the payment that must not be sent.
  for (const { raw } of former.filter(({ kind }) => kind === "pay")) await sendToAll(chain, raw);
}
