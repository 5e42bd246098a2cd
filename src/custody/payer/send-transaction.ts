/**
 * Sends stored transactions and resends them until their nonce is mined. A transaction that takes
 * too long is replaced with higher fees.
 */
import { raiseAlert } from "../../chain/alert.ts";
import { ceilingOf, replacementFees } from "../../chain/fees.ts";
import { describe, endpoints, type Hex } from "../../chain/rpc.ts";
import { commit, newGroup } from "../../platform/commit.ts";
import { log } from "../../platform/log.ts";
import { blob, sql, uuid } from "../../platform/sql.ts";
import { eventsToPush, type StreamEvent } from "../../streams/event-log.ts";
import { announceWithdrawals } from "../announce.ts";
import { mayPay, mayVoid } from "./payer-lease.ts";
import type { OpenTransaction } from "./open-transactions.ts";
import { storeAttempt } from "./store-transaction.ts";
import type { HeadView } from "./payer-context.ts";

/** Limit of attempts per nonce. Sixty raises of 12.5 % exceed any ceiling. */
const MAX_ATTEMPTS = 60;

/**
 * Sends signed bytes to every endpoint. Responses decide nothing, because nodes report "already
 * known", "nonce too low" or no result for a transaction that they have accepted.
 */
export async function broadcastSigned(context: HeadView, raw: Hex): Promise<void> {
  await Promise.all(
    endpoints(context.chain).map(async ({ client }) => {
      try {
        await client.sendRawTransaction({ serializedTransaction: raw });
      } catch (error) {
        log("info", "payer.send_unconfirmed", {
          chain: context.chain.chain,
          error: describe(error),
        });
      }
    }),
  );
}

/** Resends an unmined transaction. The first one is replaced once it is older than the setting. */
export async function rebroadcastOrReplace(
  context: HeadView,
  transaction: OpenTransaction,
  firstInLine: boolean,
): Promise<void> {
  const stuck = firstInLine && transaction.ageMs > context.chain.replace_after_secs * 1_000;
  await broadcastSigned(
    context,
    (stuck ? await replaceTransaction(context, transaction) : undefined) ?? transaction.raw,
  );
}

/**
 * Signs the same nonce and effect with higher fees, and stores that attempt before it is sent.
 * Undefined if no higher fee is allowed or the guard did not apply.
 */
async function replaceTransaction(
  context: HeadView,
  transaction: OpenTransaction,
): Promise<Hex | undefined> {
  const { chain } = context.chain;
  const fees = replacementFees(
    transaction.fees,
    context.market,
    ceilingOf(context.chain.max_fee_gwei),
  );
  if (fees === undefined || transaction.attempt >= MAX_ATTEMPTS) {
    await raiseAlert(
      context.db,
      "fee_ceiling",
      `${chain}:${transaction.nonce}`,
      `nonce ${transaction.nonce} is not mined and max_fee_gwei allows no higher fee`,
    );
    return undefined;
  }
  const { nonce, to, data, gasLimit } = transaction;
  const signed = await context.account.sign({ nonce, to, data, gasLimit, fees });
  const group = newGroup();
  const attempt = transaction.attempt + 1;
  const allowed = transaction.kind === "void" ? mayVoid : mayPay;
  const of = sql`SELECT transaction_id FROM chain_transactions
    WHERE transaction_id = ${uuid(transaction.id)} AND status = 'open'
      AND ${allowed(chain, context.token)}
      AND NOT EXISTS (SELECT 1 FROM transaction_attempts
        WHERE transaction_id = ${uuid(transaction.id)} AND attempt >= ${attempt})`;
  const stamped = sql`SELECT 1 FROM transaction_attempts a
    WHERE a.transaction_id = ${uuid(transaction.id)} AND a.signed_group = ${group.seq}`;
  const result = await commit(context.db, group, [
    sql`${storeAttempt(group, of, attempt, signed, fees)} RETURNING attempt`,
    sql`UPDATE withdrawals SET transaction_hash = ${blob(signed.hash)},
        updated_at = ${group.at}, changed_group = ${group.seq}
      WHERE status = 'submitted' AND EXISTS (${stamped}) AND withdrawal_id IN (
        SELECT withdrawal_id FROM batch_members
        WHERE transaction_id = ${uuid(transaction.id)} AND purpose = 'pay'
          AND ended_group IS NULL)`,
    ...announceWithdrawals(group),
    eventsToPush(group),
  ]);
  if (!result.committed || result.rows === null || result.rows[0]?.length === 0) return undefined;
  await context.push((result.rows.at(-1) ?? []).map((row) => row as StreamEvent));
  await context.failpoint?.("replaced");
  return signed.raw;
}
