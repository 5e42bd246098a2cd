/**
 * One round of a chain's payer: finish what is final, keep moving what is not mined, then make the next transaction.
 *
 * At most one transaction that no block holds yet exists at a time; the next is made on top of what the head shows. What
 * a payment came to is never decided here: the watcher reads it from the vault's events (settle-withdrawal.ts).
 */
import { clearAlert, raiseAlert } from "../../chain/alert.ts";
import { type Cursor, readCursor } from "../../chain/cursor.ts";
import { payerAccount } from "../../chain/payer-account.ts";
import { askAny, describe, type Endpoint, noncesAtBlock, readHead } from "../../chain/rpc.ts";
import { readVaultStatus } from "../../chain/vault.ts";
import { log } from "../../platform/log.ts";
import { closeCommands, voidCommandedPayments } from "./carry-out-commands.ts";
import { endIfConfirmed } from "./end-transaction.ts";
import {
  type NextNumbers,
  type OpenTransaction,
  readNextNumbers,
  readOpenTransactions,
} from "./open-transactions.ts";
import type { HeadView, PayerContext } from "./payer-context.ts";
import { payNextBatch } from "./pay-next-batch.ts";
import { haltPayer, readLease } from "./payer-lease.ts";
import { rebroadcastOrReplace } from "./send-transaction.ts";

export type PayRound = { readonly status: "lease_lost" | "halted" | "idle" | "busy" };

/** Gas money for so many full batches must be there, at the fees of now. */
const GAS_RESERVE_BATCHES = 20n;
const FULL_BATCH_GAS = 8_000_000n;
/** EIP-1559's tip where the node names none: 1 gwei. */
const DEFAULT_TIP = 1_000_000_000n;

export async function payRound(base: PayerContext): Promise<PayRound> {
  const { db, chain } = base;
  await closeCommands(base);
  const lease = await readLease(db, chain.chain, base.token);
  if (!lease.held) return { status: "lease_lost" };
  const cursor = await readCursor(db, chain.chain);
  if (cursor === undefined || cursor.haltedAt !== null) return { status: "halted" };

  const context = await askAny(
    chain,
    (endpoint) => readHeadView(endpoint, base, cursor),
    base.firstEndpoint ?? 0,
  );
  for (const transaction of await readOpenTransactions(db, chain.chain)) {
    await endIfConfirmed(context, transaction);
  }
  const open = await readOpenTransactions(db, chain.chain);
  const unmined = open.filter((transaction) => transaction.nonce >= context.usedNonces);
  if (lease.haltReason !== null) return sendVoidsOnly(context, unmined);
  for (const [index, transaction] of unmined.entries())
    await rebroadcastOrReplace(context, transaction, index === 0);
  if (unmined.length > 0) return { status: "busy" };

  await checkGasBalance(context);
  const made = (await voidCommandedPayments(context)) || (await payQueued(context));
  return { status: made || open.length > 0 ? "busy" : "idle" };
}

/** Halted: nothing is paid or sent again that pays. But the operator's `fail` must work, or a review could find no end. */
async function sendVoidsOnly(
  context: HeadView,
  unmined: readonly OpenTransaction[],
): Promise<PayRound> {
  if (unmined.some(({ kind }) => kind !== "void")) return { status: "halted" };
  for (const [index, transaction] of unmined.entries())
    await rebroadcastOrReplace(context, transaction, index === 0);
  const busy = unmined.length > 0 || (await voidCommandedPayments(context));
  return { status: busy ? "busy" : "halted" };
}

async function payQueued(context: HeadView): Promise<boolean> {
  const next = await readNextNumbers(context.db, context.chain.chain, context.account.address);
  const status = await readVaultStatus(context.endpoint, context.chain);
  if (await batchCountDiffers(context, next, status.nextBatchNo)) return false;
  if (status.paused) {
    await raiseAlert(
      context.db,
      "vault_paused",
      context.chain.chain,
      "the vault is paused: queued withdrawals wait",
    );
    return false;
  }
  await clearAlert(context.db, "vault_paused", context.chain.chain);
  return payNextBatch(context, status.nextBatchNo);
}

/** The contract ahead of this database means that the database is older than the chain: nothing may be paid from it. */
async function batchCountDiffers(
  context: HeadView,
  next: NextNumbers,
  nextBatchNo: number,
): Promise<boolean> {
  if (nextBatchNo > next.nextBatchNo) {
    await haltPayer(
      context.db,
      context.chain.chain,
      `the vault expects batch ${nextBatchNo}, this database would send ${next.nextBatchNo}`,
    );
    return true;
  }
  // Behind: a batch of ours has reverted, or a reorg took it. It is judged when it is final.
  return nextBatchNo < next.nextBatchNo;
}

async function readHeadView(
  endpoint: Endpoint,
  base: PayerContext,
  cursor: Cursor,
): Promise<HeadView> {
  const { chain, settings } = base;
  const account = payerAccount(settings, chain);
  const head = await readHead(endpoint, cursor.headNumber);
  const [usedNonces, tip] = await Promise.all([
    noncesAtBlock(endpoint, account.address, head.hash),
    endpoint.client
      .request({ method: "eth_maxPriorityFeePerGas" })
      .then(BigInt)
      .catch(() => DEFAULT_TIP),
  ]);
  return {
    ...base,
    account,
    endpoint,
    head,
    usedNonces,
    cursor,
    market: { baseFee: head.baseFee, tip },
  };
}

async function checkGasBalance(context: HeadView): Promise<void> {
  const { chain } = context;
  const held = await context.endpoint.client
    .getBalance({ address: context.account.address })
    .catch((error: unknown) => {
      log("warn", "payer.gas_balance_unknown", { chain: chain.chain, error: describe(error) });
      return null;
    });
  if (held === null) return;
  const needed =
    GAS_RESERVE_BATCHES * FULL_BATCH_GAS * (2n * context.market.baseFee + context.market.tip);
  if (held < needed)
    await raiseAlert(
      context.db,
      "gas_balance_low",
      chain.chain,
      `the operator account holds ${held} wei, less than ${GAS_RESERVE_BATCHES} full batches cost`,
    );
  else await clearAlert(context.db, "gas_balance_low", chain.chain);
}
