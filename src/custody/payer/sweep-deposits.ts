/**
 * Moves deposits to the vault: as many addresses as it is short of for queued withdrawals, else
 * some in the background to fill up its float. Open sweeps are of different addresses: a second one
 * of the same would do no harm, but waste gas.
 */
import { checksumAddress } from "../../assets/address.ts";
import { type AssetKey, USDC } from "../../assets/asset.ts";
import { raiseAlert } from "../../platform/alert.ts";
import { feeLimits, firstFees, smallestSweep } from "../../chain/fees.ts";
import { readHoldings } from "../../chain/holdings.ts";
import type { Hex } from "../../chain/rpc.ts";
import { tokenOf } from "../../chain/token.ts";
import {
  decodeSweep,
  FULL_BATCH_GAS,
  MAX_SWEEPS,
  readSweepTarget,
  sweepCall,
  type SweepItem,
} from "../../chain/vault-calls.ts";
import { inChunks } from "../../platform/chunks.ts";
import { NOW } from "../../platform/commit.ts";
import { readIssued } from "../../ledger/balance.ts";
import { all, expr, holds, sql } from "../../platform/sql.ts";
import { makeTransaction, refusalSubject, wouldSucceed } from "./make-transaction.ts";
import type { HeadView } from "./payer-context.ts";
import { PAUSED } from "./payer-lease.ts";

/** Sweeps of one round. With a payment they stay below the 16 that geth keeps of an account. */
const SWEEPS_PER_ROUND = 8;
/** Sweeps that are not confirmed yet. Each round decodes the call data of all of them. */
const MAX_OPEN_SWEEPS = 32;
/** Addresses read at a time. Pages, because any number of addresses may turn out to be empty. */
const PAGE = 300;
const MAX_PAGES = 10;

/** Sweeps what the vault lacks, largest first, after `made` transactions. Whether it made any. */
export async function sweepMissing(
  context: HeadView,
  missing: ReadonlyMap<AssetKey, bigint>,
  made: number,
): Promise<boolean> {
  const open = await readOpenSweeps(context);
  const sweeps = Math.min(SWEEPS_PER_ROUND, MAX_OPEN_SWEEPS - open.length);
  const swept = new Set(open.flat());
  const items: SweepItem[] = [];
  for (const [asset, amount] of missing) {
    const limit = sweeps * MAX_SWEEPS - items.length;
    items.push(...(await chooseItems(context, { asset, amount, limit, swept, smallest: 1n })));
  }
  return sendSweeps(context, items, made);
}

/**
 * Sweeps USDC if the vault holds less than `sweep_float_bps` of what is issued on the chain,
 * largest first. Makes one sweep, and none while another one is open, so that gas is spent slowly.
 */
export async function sweepTowardsFloat(context: HeadView, made: number): Promise<boolean> {
  const { db, chain, market } = context;
  if (chain.sweep_float_bps === 0 || !(await mayFillUp(context))) return false;
  const issued = await readIssued(db, chain.chain, USDC);
  const float = (issued * BigInt(chain.sweep_float_bps)) / 10_000n;
  if (float <= 0n) return false;
  const token = tokenOf(context.settings, chain, USDC);
  const holder = checksumAddress(chain.vault);
  const [held = 0n] = await readHoldings(context.endpoint, [{ token, holder }]);
  const items = await chooseItems(context, {
    asset: USDC,
    amount: float - held,
    limit: MAX_SWEEPS,
    swept: new Set(),
    smallest: smallestSweep(chain, market),
  });
  return sendSweeps(context, items, made);
}

/** No sweep is open and withdrawals are not paused. The guard refuses a sweep during a pause. */
async function mayFillUp({ db, chain }: HeadView): Promise<boolean> {
  const may = expr`NOT ${PAUSED} AND NOT EXISTS (SELECT 1 FROM chain_transactions
    WHERE chain = ${chain.chain} AND kind = 'sweep' AND status = 'open')`;
  return holds(db, may);
}

/** For each sweep that is not confirmed yet, the keys of its items. */
async function readOpenSweeps({ db, chain }: HeadView): Promise<string[][]> {
  const rows = await all<{ data: Hex }>(
    db,
    sql`SELECT '0x' || lower(hex(data)) AS data FROM chain_transactions
      WHERE chain = ${chain.chain} AND kind = 'sweep' AND status = 'open'`,
  );
  return rows.map(({ data }) => decodeSweep(data).map(keyOf));
}

/** What an item moves: one token of one address. */
function keyOf({ salt, token, tokenId }: Omit<SweepItem, "kind">): string {
  return `${salt} ${token.toLowerCase()} ${tokenId}`;
}

/** Chooses addresses that hold `amount` together, each at least `smallest`. */
async function chooseItems(
  context: HeadView,
  wanted: {
    readonly asset: AssetKey;
    readonly amount: bigint;
    readonly limit: number;
    /** Items of open sweeps. They are not chosen again. */
    readonly swept: ReadonlySet<string>;
    readonly smallest: bigint;
  },
): Promise<SweepItem[]> {
  const token = tokenOf(context.settings, context.chain, wanted.asset);
  const items: SweepItem[] = [];
  let found = 0n;
  const isEnough = () => found >= wanted.amount || items.length >= wanted.limit;
  for (let page = 0; page < MAX_PAGES && !isEnough(); page++) {
    const rows = await readSweepable(context, wanted, page);
    const free = rows
      .map(({ address, salt }) => ({ holder: checksumAddress(address), item: { ...token, salt } }))
      .filter(({ item }) => !wanted.swept.has(keyOf(item)));
    const holdings = await readHoldings(
      context.endpoint,
      free.map(({ holder }) => ({ token, holder })),
    );
    for (const [index, { item }] of free.entries()) {
      const held = holdings[index] ?? 0n;
      if (isEnough()) break;
      if (held < wanted.smallest) continue;
      found += held;
      items.push(item);
    }
    if (rows.length < PAGE) break;
  }
  return items;
}

/** A page of the addresses with deposits that may be swept, largest first. */
function readSweepable(
  { db, chain }: HeadView,
  { asset, smallest }: { readonly asset: AssetKey; readonly smallest: bigint },
  page: number,
) {
  return all<{ address: Hex; salt: Hex }>(
    db,
    sql`SELECT '0x' || hex(s.address) AS address, '0x' || lower(hex(a.salt)) AS salt
      FROM sweepable s JOIN deposit_addresses a ON a.chain = s.chain AND a.address = s.address
      WHERE s.chain = ${chain.chain} AND s.asset = ${asset} AND s.amount >= ${smallest}
        AND (s.not_before IS NULL OR s.not_before <= ${NOW})
      ORDER BY s.amount DESC LIMIT ${PAGE} OFFSET ${page * PAGE}`,
  );
}

/**
 * Makes as many sweeps as the items need and the account's balance allows, because nodes accept
 * only what it can pay for at the full gas limits. Returns whether it made one.
 */
async function sendSweeps(
  context: HeadView,
  items: readonly SweepItem[],
  made: number,
): Promise<boolean> {
  if (items.length === 0 || !(await sweepsToVault(context))) return false;
  const { account, endpoint, chain, market } = context;
  const maxFee = firstFees(market, feeLimits(chain))?.maxFee ?? 0n;
  const balance = await endpoint.client.getBalance({ address: account.address });
  let left = balance - BigInt(made) * FULL_BATCH_GAS * maxFee;
  let sweeps = 0;
  for (const chunk of inChunks(items, MAX_SWEEPS)) {
    const call = sweepCall(chain, chunk);
    left -= call.gasLimit * maxFee;
    // The first transaction of a round is made in any case. Alerts report what is wrong with it.
    if (made + sweeps > 0 && left < 0n) break;
    if (!(await wouldSucceed(context, "sweep", call))) break;
    const sweep = { kind: "sweep", call, batchNo: null, members: [] } as const;
    if (!(await makeTransaction(context, sweep, made + sweeps))) break;
    sweeps++;
  }
  return sweeps > 0;
}

/** During a move to a new vault, or after a theft of its admin key, the factory names another. */
async function sweepsToVault({ db, endpoint, chain }: HeadView): Promise<boolean> {
  const target = await readSweepTarget(endpoint, chain);
  if (target === checksumAddress(chain.vault)) return true;
  const detail = `the factory sweeps to ${target}, but the settings name the vault ${chain.vault}`;
  await raiseAlert(db, "payment_refused", refusalSubject(chain.chain, "sweep"), detail);
  return false;
}
