/** Resends transactions until their nonce is mined, and replaces one that takes too long. */
import { raiseAlert } from "../../platform/alert.ts";
import { areTooLow, feeLimits, replacementFees } from "../../chain/fees.ts";
import type { Hex } from "../../chain/rpc.ts";
import { newGroup } from "../../platform/commit.ts";
import { blob, sql, uuid } from "../../platform/sql.ts";
import { commitAndPush } from "../../streams/event-log.ts";
import { announceWithdrawals } from "../custody-events.ts";
import { mayPay, mayVoid } from "./payer-lease.ts";
import type { OpenTransaction } from "./open-transactions.ts";
import { broadcastSigned, storeAttempt } from "./make-transaction.ts";
import type { HeadView } from "./payer-context.ts";

/** Limit of attempts per nonce. Sixty raises of 12.5 % exceed any limit of fees. */
const MAX_ATTEMPTS = 60;
/** Blocks that must leave an attempt out before its fees rise. The first may be older than it. */
const MIN_BLOCKS = 2;

/**
 * Resends an unmined transaction. Replaces the first one if it is older than the setting, blocks
 * have left it out, and it offers too little. Without blocks, higher fees have no effect.
 */
export async function rebroadcastOrReplace(
  context: HeadView,
  transaction: OpenTransaction,
  firstInLine: boolean,
): Promise<void> {
  if (transaction.unsent) {
    const cancel = await replaceTransaction(context, transaction);
    if (cancel !== undefined) await broadcastSigned(context, cancel);
    return;
  }
  const stuck =
    firstInLine &&
    transaction.ageMs > context.chain.replace_after_secs * 1_000 &&
    context.head.number >= transaction.headNumber + MIN_BLOCKS &&
    areTooLow(transaction.fees, context.market, feeLimits(context.chain));
  const replaced = stuck ? await replaceTransaction(context, transaction) : undefined;
  await broadcastSigned(context, replaced ?? transaction.raw);
}

/**
 * Signs the same nonce and effect with higher fees, and stores that attempt before it is sent. A
 * `cancel` has no effect. Undefined if no higher fee is allowed or the guard did not apply.
 */
async function replaceTransaction(
  context: HeadView,
  transaction: OpenTransaction,
): Promise<Hex | undefined> {
  const { chain } = context.chain;
  const { id, nonce, to, data, gasLimit, kind } = transaction;
  const subject = `${chain}:${nonce}`;
  const fees = replacementFees(transaction.fees, context.market, feeLimits(context.chain));
  if (fees === undefined || transaction.attempt >= MAX_ATTEMPTS) {
    const detail = `nonce ${nonce} is not mined; max_fee_gwei and max_tip_gwei allow no higher fee`;
    await raiseAlert(context.db, "fee_ceiling", subject, detail);
    return undefined;
  }
  // SQL can edit the row, but not what the signed bytes say.
  if (kind !== "cancel" && !(await context.account.verify(transaction.raw, transaction))) {
    const detail =
      `the row of nonce ${nonce} on ${chain} is not the transaction that was signed, so its fees ` +
      "are not raised. Write back what the bytes of its last attempt say";
    await raiseAlert(context.db, "withdrawal_altered", subject, detail);
    return undefined;
  }
  const effect =
    kind === "cancel" ? ({ to: context.account.address, data: "0x" } as const) : { to, data };
  const signed = await context.account.sign({ nonce, gasLimit, fees, ...effect });
  const group = newGroup();
  const attempt = transaction.attempt + 1;
  const allowed = kind === "void" ? mayVoid : mayPay;
  const of = sql`SELECT transaction_id FROM chain_transactions
    WHERE transaction_id = ${uuid(id)} AND status = 'open'
      AND ${allowed(chain, context.token)}
      AND NOT EXISTS (SELECT 1 FROM transaction_attempts
        WHERE transaction_id = ${uuid(id)} AND attempt >= ${attempt})`;
  const stamped = sql`SELECT 1 FROM transaction_attempts a
    WHERE a.transaction_id = ${uuid(id)} AND a.signed_group = ${group.seq}`;
  const stored = { number: attempt, signed, fees, headNumber: context.head.number };
  const result = await commitAndPush(context, group, [
    sql`${storeAttempt(group, of, stored)} RETURNING attempt`,
    sql`UPDATE withdrawals SET transaction_hash = ${blob(signed.hash)},
        updated_at = ${group.at}, changed_group = ${group.seq}
      WHERE status = 'submitted' AND EXISTS (${stamped}) AND withdrawal_id IN (
        SELECT withdrawal_id FROM batch_members
        WHERE transaction_id = ${uuid(id)} AND purpose = 'pay'
          AND ended_group IS NULL)`,
    ...announceWithdrawals(group),
  ]);
  // If D1's response was lost, the next round sends what was stored.
  if (!result.committed || result.rows === null || result.rows[0]?.length === 0) return undefined;
  await context.failpoint?.("replaced");
  return signed.raw;
}
