/**
 * Makes the next transactions for queued withdrawals: a payment of as many as fit, and sweeps of
 * what the vault lacks for the others. If it lacks nothing, at most one sweep for its float.
 */
import { IN_FLIGHT } from "../../assets/withdrawal-status.ts";
import { checksumAddress } from "../../assets/address.ts";
import type { AssetKey } from "../../assets/asset.ts";
import { readHoldings } from "../../chain/holdings.ts";
import { tokenNameOf, tokenOf } from "../../chain/token.ts";
import { MAX_PAYMENTS, payCall, type Payment } from "../../chain/vault-calls.ts";
import { NOW } from "../../platform/commit.ts";
import { all, listed, readUuid, select, sql } from "../../platform/sql.ts";
import { MAC_COLUMNS, type MacRow } from "../../ledger/withdrawal-mac.ts";
import { withTermsAsOrdered, parkOverLimit } from "./park-withdrawal.ts";
import { choosePayments, type Job, type PaymentLimits, reachedLimits } from "./choose-payments.ts";
import {
  alertLimit,
  beyondShare,
  readLimits,
  readRefusingTokens,
  withoutRefused,
} from "./limit-queue.ts";
import { makeTransaction, PAYABLE, wouldSucceed } from "./make-transaction.ts";
import type { HeadView } from "./payer-context.ts";
import { PAUSED } from "./payer-lease.ts";
import { sweepMissing, sweepTowardsFloat } from "./sweep-deposits.ts";

/** Withdrawals read for one payment: twice what fits, so that some may wait without delaying it. */
const MAX_JOBS = 2 * MAX_PAYMENTS;
/** The vault rejects a batch that is mined later than this, so no forgotten batch is paid. */
const DEADLINE_MS = 86_400_000;

export async function payNextBatch(context: HeadView, batchNo: number): Promise<boolean> {
  const refusing = await readRefusingTokens(context);
  const { jobs, limits } = await readQueue(context, refusing);
  const choice = choosePayments(jobs, await readHeld(context, jobs), MAX_PAYMENTS, limits);
  const { chosen, missing } = await withoutRefused(context, choice);
  const paid = chosen.length > 0 && (await payChosen(context, batchNo, chosen));
  const made = paid ? 1 : 0;
  if (missing.size > 0) return (await sweepMissing(context, missing, made)) || paid;
  // A refused sweep would delay the next one of its addresses by an hour.
  return (refusing.length === 0 && (await sweepTowardsFloat(context, made))) || paid;
}

/** Reads of the queue, because each may bring forward what counts towards another limit. */
const MAX_READS = 5;

/**
 * The jobs in the order in which they are paid: the oldest first. If a vault limit cannot pay all
 * that count towards it, they come after the others, which need not wait for them.
 */
async function readQueue(
  context: HeadView,
  refusing: readonly string[],
): Promise<{ jobs: readonly Job[]; limits: PaymentLimits }> {
  const limited = new Set<string>();
  const beyond = new Set<string>();
  for (let reads = 1; ; reads++) {
    const read = await readJobs(context, refusing, { limited, beyond });
    const limits = await readLimits(context, read);
    const jobs = await parkOverLimit(context, read, limits);
    // Payments that come forward may be limited, too.
    const found = reachedLimits(jobs, limits).filter((name) => !limited.has(name));
    if (found.length === 0 || reads === MAX_READS) {
      await alertLimit(context, jobs, limits);
      return { jobs, limits };
    }
    for (const name of found) limited.add(name);
    for (const id of await beyondShare(context, limits, found)) beyond.add(id);
  }
}

/**
 * What the vault holds at the head of the jobs' assets. Unconfirmed sweeps count: a payment's nonce
 * comes after theirs. If a reorg takes away anything else, the vault skips the payment.
 */
async function readHeld(
  context: HeadView,
  jobs: readonly Job[],
): Promise<ReadonlyMap<AssetKey, bigint>> {
  const assets = [...new Set(jobs.map((job) => job.asset))];
  const holder = checksumAddress(context.chain.vault);
  const held = await readHoldings(
    context.endpoint,
    assets.map((asset) => ({ token: tokenOf(context.settings, context.chain, asset), holder })),
  );
  return new Map(assets.map((asset, index) => [asset, held[index] ?? 0n]));
}

async function payChosen(
  context: HeadView,
  batchNo: number,
  chosen: readonly Job[],
): Promise<boolean> {
  const payments: Payment[] = chosen.map((job) => ({
    ...tokenOf(context.settings, context.chain, job.asset),
    id: job.paymentId,
    amount: job.amount,
    to: job.to,
  }));
  const call = payCall(context.chain, {
    batchNo,
    // Our own clock, because a node could state a time that keeps the batch payable for years.
    deadline: BigInt(Math.floor((Date.now() + DEADLINE_MS) / 1_000)),
    payments,
  });
  if (!(await wouldSucceed(context, "pay", call))) return false;
  return makeTransaction(context, {
    kind: "pay",
    call,
    batchNo,
    members: chosen.map((job) => job.withdrawalId),
  });
}

/** `last`: reached limits, and withdrawals that count towards them, that come after all others. */
async function readJobs(
  context: HeadView,
  refusing: readonly string[],
  last: { readonly limited: ReadonlySet<string>; readonly beyond: ReadonlySet<string> },
): Promise<Job[]> {
  const { db, chain } = context;
  const order =
    last.limited.size === 0
      ? sql``
      : sql`EXISTS (SELECT 1 FROM json_each(${JSON.stringify([...last.limited])})
          WHERE value IN (w.asset, ${tokenNameOf("w.asset")})),
        hex(w.withdrawal_id) IN (${listed([...last.beyond])}),`;
  const rows = await all<MacRow>(
    db,
    sql`SELECT ${select(MAC_COLUMNS)}
      FROM withdrawals w INDEXED BY withdrawals_open
      WHERE w.chain = ${chain.chain} AND w.status ${IN_FLIGHT} AND ${PAYABLE}
        AND (w.not_before IS NULL OR w.not_before <= ${NOW})
        AND ${tokenNameOf("w.asset")} NOT IN (${listed(refusing)})
        AND NOT ${PAUSED}
      ORDER BY ${order} w.created_at, w.withdrawal_id LIMIT ${MAX_JOBS}`,
  );
  return (await withTermsAsOrdered(context, rows)).map((row) => ({
    withdrawalId: readUuid(row.withdrawalId),
    paymentId: `0x${row.paymentId.toLowerCase()}`,
    asset: row.asset,
    amount: BigInt(row.amount),
    to: checksumAddress(row.toAddress),
  }));
}
