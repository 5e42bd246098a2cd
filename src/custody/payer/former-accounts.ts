/**
 * Open transactions of an account that paid before the operator account was changed. Its key may be
 * gone or stolen, so their bytes are resent and never replaced. They take no nonce of the new
 * account. The batch number and the members of a payment stay taken until the confirmed chain shows
 * that it is over. `revokeRole` for the old account ends it in any case.
 */
import { endpoints } from "../../chain/rpc.ts";
import { sendTo } from "../../chain/send.ts";
import { confirmedNonces, confirmedOutcomes, confirmedPayerRole } from "./agreed-reads.ts";
import type { OpenTransaction } from "./open-transactions.ts";
import type { HeadView } from "./payer-context.ts";

export function isFormer({ account }: HeadView, { sender }: OpenTransaction): boolean {
  return sender !== account.address.toLowerCase();
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
  for (const { raw } of former)
    await Promise.all(endpoints(chain).map((endpoint) => sendTo(endpoint, raw)));
}
