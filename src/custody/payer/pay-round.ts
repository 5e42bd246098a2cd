/**
 * Runs one round of a chain's payer: ends confirmed transactions, resends or replaces unmined ones,
 * then makes the next: one void, or one payment and independent sweeps of what it cannot cover.
 * Makes none while one is unmined, so they build on what the head shows. The payer decides no
 * outcome. The watcher reads it from the vault's events (settle-withdrawal.ts).
 */
import { alertWhile } from "../../platform/alert.ts";
import { NEEDS_RESTORE } from "../../platform/alert-kinds.ts";
import { type Cursor, readCursor } from "../../chain/chain-cursor.ts";
import { feeLimits, firstFees } from "../../chain/fees.ts";
import { payerAccount } from "../../chain/payer-account.ts";
import { describe, endpoints } from "../../chain/rpc.ts";
import { FULL_BATCH_GAS, MAX_PAYMENTS } from "../../chain/vault-calls.ts";
import { log } from "../../platform/log.ts";
import { confirmedOutcomes, readAgreedHead, readTip, vaultAtHead } from "./agreed-reads.ts";
import { haltIfRemoved, resumePayer, byAccount, resendFormer } from "./reopen-transactions.ts";
import { closeCommands, voidCommandedPayments } from "./carry-out-commands.ts";
import { endConfirmed } from "./end-transaction.ts";
import {
  type OpenTransaction,
  readNextNumbers,
  readOpenTransactions,
} from "./open-transactions.ts";
import type { HeadView, PayerContext } from "./payer-context.ts";
import { payNextBatch } from "./pay-next-batch.ts";
import { haltPayer, readLease } from "./payer-lease.ts";
import { rebroadcastOrReplace } from "./send-transaction.ts";

export type PayRound = { readonly status: "lease_lost" | "halted" | "idle" | "busy" };

/** Payments that the operator account should be able to pay gas for at the current fees. */
const GAS_RESERVE_PAYMENTS = 100n;

export async function payRound(base: PayerContext): Promise<PayRound> {
  const resumes = await closeCommands(base);
  const round = await roundAfter(base, resumes);
  // While a `chain resume` is open the next round comes soon: it may wait for the watcher.
  return resumes && round.status === "halted" ? { status: "busy" } : round;
}

async function roundAfter(base: PayerContext, resumes: boolean): Promise<PayRound> {
  const { db, chain } = base;
  let lease = await readLease(db, chain.chain, base.token);
  if (!lease.held) return { status: "lease_lost" };
  const cursor = await readCursor(db, chain.chain);
  if (cursor === undefined || cursor.haltedAt !== null) return { status: "halted" };

  const context = await readHeadView(base, cursor);
  // First, because a transaction that nobody can mine for lack of gas keeps later steps waiting.
  await alertLowGas(context);
  if (resumes && context.agreed) await resumePayer(context);
  if (context.agreed) await endConfirmed(context, await readOpenTransactions(db, chain.chain));
  // Resuming the payer or ending a transaction may have changed the lease.
  lease = await readLease(db, chain.chain, base.token);
  const open = await readOpenTransactions(db, chain.chain);
  const { former = [], own = [] } = byAccount(context, open);
  const unmined = own.filter(({ nonce }) => nonce >= context.usedNonces);
  if (context.levels !== undefined) context.levels.nonceGap = unmined.length;
  if (lease.haltReason !== null) return sendVoidsOnly(context, unmined);
  if (await haltIfRemoved(context)) return { status: "halted" };
  await resendFormer(context, former);
  for (const [index, transaction] of unmined.entries())
    await rebroadcastOrReplace(context, transaction, index === 0);
  if (unmined.length > 0) return { status: "busy" };

  const made = (await voidCommandedPayments(context)) || (await payQueued(context, open));
  return { status: made || open.length > 0 ? "busy" : "idle" };
}

/** While halted, only voids are made and resent, because a review needs `withdrawals fail`. */
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

async function payQueued(context: HeadView, open: readonly OpenTransaction[]): Promise<boolean> {
  const { db, chain, account } = context;
  const { nextBatchNo: ours } = await readNextNumbers(db, chain, account.address);
  const status = await vaultAtHead(context);
  if (await batchCountDiffers(context, ours, status.nextBatchNo, open)) return false;
  const { paused, nextBatchNo } = status;
  const detail = paused ? "the vault is paused, queued withdrawals wait" : undefined;
  await alertWhile(db, "vault_paused", chain.chain, detail);
  return !paused && payNextBatch(context, nextBatchNo);
}

/**
 * Halts the payer if vault and database count different batches. If the vault is ahead, the
 * database is older than the chain and could repeat a payment. If it is behind, the chain has lost
 * payments, or the setting names another vault. On one endpoint's word the payer only waits.
 */
async function batchCountDiffers(
  context: HeadView,
  ours: number,
  nextBatchNo: number,
  open: readonly OpenTransaction[],
): Promise<boolean> {
  const { chain } = context;
  if (nextBatchNo === ours) return false;
  if (!context.agreed) return true;
  if (nextBatchNo > ours) {
    await haltPayer(context, `${batchNumbers(nextBatchNo, ours)}: ${NEEDS_RESTORE}`);
    return true;
  }
  // The vault is behind after one of our batches reverted or a reorg removed it. The payer waits
  // until that batch is confirmed or ended.
  const vault = chain.vault.toLowerCase();
  if (open.some(({ batchNo, to }) => batchNo !== null && to === vault)) return true;
  // Every batch that ended was counted at the confirmed block. A reorg above it may end.
  const confirmed = await confirmedOutcomes(context, chain.vault, []);
  if (confirmed.nextBatchNo < ours)
    await haltPayer(context, batchNumbers(confirmed.nextBatchNo, ours));
  return true;
}

function batchNumbers(inVault: number, inDatabase: number): string {
  return `the next batch is ${inVault} in the vault and ${inDatabase} in the database`;
}

async function readHeadView(base: PayerContext, cursor: Cursor): Promise<HeadView> {
  const { chain, settings, firstEndpoint: preferred = 0 } = base;
  const account = payerAccount(settings, chain);
  const [view, tip] = await Promise.all([
    readAgreedHead(chain, cursor, account.address, preferred),
    readTip(chain),
  ]);
  // The node has answered quickly, but to simulate a batch may take longer than a second.
  const endpoint = endpoints(chain, "patient").find(({ url }) => url === view.endpoint.url);
  return {
    ...base,
    ...view,
    endpoint: endpoint ?? view.endpoint,
    account,
    cursor,
    market: { baseFee: view.head.baseFee, tip },
  };
}

async function alertLowGas(context: HeadView): Promise<void> {
  const { chain, market } = context;
  const held = await context.endpoint.client
    .getBalance({ address: context.account.address })
    .catch((error: unknown) => {
      log("warn", "payer.gas_balance_unknown", { chain: chain.chain, error: describe(error) });
      return null;
    });
  if (held === null) return;
  const limits = feeLimits(chain);
  const feePerGas = firstFees(market, limits)?.maxFee ?? limits.maxFee;
  const needed = ((GAS_RESERVE_PAYMENTS * FULL_BATCH_GAS) / BigInt(MAX_PAYMENTS)) * feePerGas;
  if (context.levels !== undefined)
    Object.assign(context.levels, { gasWei: Number(held), gasNeededWei: Number(needed) });
  const detail =
    `the operator account ${context.account.address} has ${held} wei; the next ` +
    `${GAS_RESERVE_PAYMENTS} payments may cost ${needed} wei`;
  await alertWhile(context.db, "gas_low", chain.chain, held < needed ? detail : undefined);
}
