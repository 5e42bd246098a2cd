/** Makes one transaction of the operator account: fees, nonce, signature, storage, broadcast. */
import { clearAlert, raiseAlert } from "../../platform/alert.ts";
import { feeLimits, firstFees } from "../../chain/fees.ts";
import { confirmedNonces } from "./agreed-reads.ts";
import { readNextNumbers } from "./open-transactions.ts";
import type { HeadView } from "./payer-context.ts";
import { broadcastSigned } from "./send-transaction.ts";
import { type NewTransaction, storeTransaction } from "./store-transaction.ts";

/**
 * Signs, stores and sends a transaction. `made` is the number of transactions that this round has
 * made before it. Returns false if fees or guard do not allow it.
 */
export async function makeTransaction(
  context: HeadView,
  transaction: Omit<NewTransaction, "nonce" | "fees" | "headNumber">,
  made = 0,
): Promise<boolean> {
  const fees = firstFees(context.market, feeLimits(context.chain));
  if (fees === undefined) {
    await raiseAlert(
      context.db,
      "fee_ceiling",
      context.chain.chain,
      `the base fee of ${context.market.baseFee} wei is above max_fee_gwei`,
    );
    return false;
  }
  await clearAlert(context.db, "fee_ceiling", context.chain.chain);
  const nonce = await nextNonce(context);
  // A gap would keep it, and all later ones, from being mined.
  if (nonce !== context.usedNonces + made) return false;
  const signed = await storeTransaction(context, context.account, {
    ...transaction,
    nonce,
    fees,
    headNumber: context.head.number,
  });
  if (signed === undefined) return false;
  await broadcastSigned(context, signed.raw);
  await context.failpoint?.("sent");
  return true;
}

/**
 * Nonces that this database does not know were used with another copy of the key, or since a
 * backup. They count only at the confirmed block: a nonce that an endpoint made up would leave a
 * permanent gap.
 */
async function nextNonce(context: HeadView): Promise<number> {
  const { db, chain, account, usedNonces } = context;
  const { nextNonce: known } = await readNextNumbers(db, chain, account.address);
  return known >= usedNonces
    ? known
    : Math.max(known, await confirmedNonces(context, account.address));
}
