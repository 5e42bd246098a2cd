/**
 * Makes the next transaction for queued withdrawals: a sweep if the vault holds too little, else a
 * payment of as many as fit (choose-payments.ts).
 */
import { and, desc, eq, isNull, lte, or } from "drizzle-orm";
import { clearAlert, raiseAlert } from "../../chain/alert.ts";
import { describe } from "../../chain/rpc.ts";
import { type Token, tokenOf } from "../../chain/token.ts";
import {
  type Call,
  MAX_PAYMENTS,
  MAX_SWEEPS,
  payCall,
  type Payment,
  readHolding,
  sweepCall,
  type SweepItem,
} from "../../chain/vault.ts";
import { NOW } from "../../platform/commit.ts";
import { all, readUuid, sql } from "../../platform/sql.ts";
import { checksumAddress } from "../../assets/address.ts";
import type { AssetKey } from "../../assets/asset.ts";
import { choosePayments, type Job } from "./choose-payments.ts";
import { PAYABLE } from "./store-transaction.ts";
import type { HeadView } from "./payer-context.ts";
import { makeTransaction } from "./make-transaction.ts";
import { sweepable } from "../../chain/tables.ts";
import { depositAddresses } from "../tables.ts";
import { fragment, read } from "../../platform/read.ts";

/** Withdrawals read for one payment: twice what fits, so that some may wait without delaying it. */
const MAX_JOBS = 2 * MAX_PAYMENTS;
/** The vault rejects a batch that is mined later than this, so no forgotten batch is paid. */
const DEADLINE_SECS = 86_400n;

export async function payNextBatch(context: HeadView, batchNo: number): Promise<boolean> {
  const jobs = await readJobs(context);
  if (jobs.length === 0) return false;
  const held = new Map<AssetKey, bigint>();
  for (const asset of new Set(jobs.map((job) => job.asset))) {
    held.set(
      asset,
      await readHolding(
        context.endpoint,
        tokenOf(context.settings, context.chain, asset),
        checksumAddress(context.chain.vault),
      ),
    );
  }
  const { chosen, missing } = choosePayments(jobs, held, MAX_PAYMENTS);
  if (missing.size > 0 && (await sweepAddresses(context, missing))) return true;
  if (chosen.length === 0) return false;

  const payments: Payment[] = chosen.map((job) => ({
    ...tokenOf(context.settings, context.chain, job.asset),
    id: job.paymentId,
    amount: job.amount,
    to: job.to,
  }));
  const call = await payCall(context.endpoint, context.chain, {
    batchNo,
    deadline: context.head.timestamp + DEADLINE_SECS,
    payments,
  });
  if (!(await wouldSucceed(context, call))) return false;
  return makeTransaction(context, {
    kind: "pay",
    call,
    batchNo,
    members: chosen.map((job) => job.withdrawalId),
  });
}

async function readJobs({ db, chain }: HeadView): Promise<Job[]> {
  const rows = await all<{
    id: string;
    payment: string;
    asset: string;
    amount: string;
    to_address: string;
  }>(
    db,
    sql`SELECT hex(w.withdrawal_id) AS id, lower(hex(w.payment_id)) AS payment, w.asset,
        CAST(w.amount AS TEXT) AS amount, hex(w.to_address) AS to_address
      FROM withdrawals w INDEXED BY withdrawals_open
      WHERE w.chain = ${chain.chain} AND w.status IN ('queued', 'submitted') AND ${PAYABLE}
        AND (w.not_before IS NULL OR w.not_before <= ${NOW})
        AND NOT EXISTS (SELECT 1 FROM kill_switches WHERE name = 'withdrawals_paused')
      ORDER BY w.created_at, w.withdrawal_id LIMIT ${MAX_JOBS}`,
  );
  return rows.map((row) => ({
    withdrawalId: readUuid(row.id),
    paymentId: `0x${row.payment}`,
    asset: row.asset,
    amount: BigInt(row.amount),
    to: checksumAddress(row.to_address),
  }));
}

/** Moves missing funds from deposit addresses to the vault, largest first. One sweep at a time. */
async function sweepAddresses(
  context: HeadView,
  missing: ReadonlyMap<AssetKey, bigint>,
): Promise<boolean> {
  const [open] = await all<{ n: number }>(
    context.db,
    sql`SELECT count(*) AS n FROM chain_transactions
      WHERE chain = ${context.chain.chain} AND kind = 'sweep' AND status = 'open'`,
  );
  if (open?.n !== 0) return false;
  const items: SweepItem[] = [];
  for (const [asset, amount] of missing) {
    if (items.length < MAX_SWEEPS)
      items.push(...(await readSweepItems(context, asset, amount, MAX_SWEEPS - items.length)));
  }
  if (items.length === 0) return false;
  const call = await sweepCall(context.endpoint, context.chain, items);
  return (
    (await wouldSucceed(context, call)) &&
    makeTransaction(context, { kind: "sweep", call, batchNo: null, members: [] })
  );
}

async function readSweepItems(
  context: HeadView,
  asset: AssetKey,
  missing: bigint,
  limit: number,
): Promise<SweepItem[]> {
  const { chain } = context.chain;
  const due = or(isNull(sweepable.notBefore), lte(sweepable.notBefore, fragment(NOW)));
  const rows = await read(context.db, ({ select }) =>
    select({ address: sweepable.address, salt: depositAddresses.salt })
      .from(sweepable)
      .innerJoin(
        depositAddresses,
        and(
          eq(depositAddresses.chain, sweepable.chain),
          eq(depositAddresses.address, sweepable.address),
        ),
      )
      .where(and(eq(sweepable.chain, chain), eq(sweepable.asset, asset), due))
      .orderBy(desc(sweepable.amount))
      .limit(limit),
  );
  const token: Token = tokenOf(context.settings, context.chain, asset);
  const items: SweepItem[] = [];
  let found = 0n;
  for (const { address, salt } of rows) {
    if (found >= missing) break;
    const holds = await readHolding(context.endpoint, token, checksumAddress(address));
    if (holds === 0n) continue;
    found += holds;
    items.push({ ...token, salt });
  }
  return items;
}

/**
 * Simulates a call. Raises an alert if it would revert as a whole, for example because the vault is
 * paused or the operator account has lost its role.
 */
async function wouldSucceed(context: HeadView, call: Call): Promise<boolean> {
  try {
    await context.endpoint.client.call({
      account: context.account.address,
      to: call.to,
      data: call.data,
      gas: call.gasLimit,
    });
    await clearAlert(context.db, "payment_refused", context.chain.chain);
    return true;
  } catch (error) {
    await raiseAlert(context.db, "payment_refused", context.chain.chain, describe(error));
    return false;
  }
}
