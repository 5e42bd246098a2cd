import { raiseAlert } from "../../chain/alert.ts";
import { ceilingOf, firstFees } from "../../chain/fees.ts";
import { readCounts } from "./open-transactions.ts";
import type { Desk } from "./payer-context.ts";
import { send } from "./send-transaction.ts";
import { type NewTransaction, storeTransaction } from "./store-transaction.ts";

/** Signs, stores and sends. True when the guard granted the nonce. */
export async function makeTransaction(
  desk: Desk,
  transaction: Omit<NewTransaction, "nonce" | "fees">,
): Promise<boolean> {
  const fees = firstFees(desk.market, ceilingOf(desk.chain.max_fee_gwei));
  if (fees === undefined) {
    await raiseAlert(
      desk.db,
      "fee_ceiling",
      desk.chain.chain,
      `the base fee of ${desk.market.baseFee} wei is above max_fee_gwei`,
    );
    return false;
  }
  const counts = await readCounts(desk.db, desk.chain.chain, desk.account.address);
  const nonce = Math.max(counts.nextNonce, desk.usedNonces);
  if (nonce > desk.usedNonces) return false;
  const signed = await storeTransaction(desk, desk.account, { ...transaction, nonce, fees });
  if (signed === undefined) return false;
  await send(desk, signed.raw);
  await desk.cut?.("sent");
  return true;
}
