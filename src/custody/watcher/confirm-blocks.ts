/**
 * Confirms blocks: reads each range again once it has its confirmations, then credits its deposits
 * and applies the vault's events in the batch that moves the cursor. The second reading prefers
 * another endpoint than the first, so that one faulty node cannot credit a deposit.
 */
import {
  alertUnexpectedPayments,
  endMembers,
  recordVaultEvents,
  requeueSkipped,
  settlePaid,
} from "./settle-withdrawal.ts";
import {
  type Cursor,
  deleteBlocks,
  movedBy,
  moveConfirmed,
  readBlocks,
} from "../../chain/cursor.ts";
import type { Swept, SweepFailed } from "../../chain/decode-logs.ts";
import { askAny, type Endpoint, NodeDisagrees, readHeader } from "../../chain/rpc.ts";
import { type Range, type Scan, scanRange, watchedContracts } from "../../chain/scan.ts";
import { assetOf } from "../../chain/token.ts";
import { type Group, newGroup } from "../../platform/commit.ts";
import { all, type Sql, sql } from "../../platform/sql.ts";
import { announceDeposits, announceWithdrawals } from "../announce.ts";
import { creditConfirmed, depositsDue } from "./credit-deposit.ts";
import { recordDeposits, type SeenTransfer, transfersToUs } from "./detect-deposits.ts";
import { failUnpayable } from "./fail-withdrawal.ts";
import { orphanUnseen } from "./orphan-deposit.ts";
import { type WatcherContext, commitMove } from "./commit-move.ts";

/** Wait before a failed sweep of an address is repeated. */
const SWEEP_FAILED_WAIT_MS = 3_600_000;
/** Limit of further groups for a range with more deposits than one group credits. */
const CREDIT_GROUPS = 100;

/** Confirms the next range of blocks up to `target` in one group. */
export async function confirmBlocks(
  context: WatcherContext,
  cursor: Cursor,
  target: number,
): Promise<Cursor> {
  const { settings, chain } = context;
  const range = {
    from: cursor.confirmed.number + 1,
    to: Math.min(target, cursor.confirmed.number + chain.scan_range),
  };
  const expected = await readExpected(context, range);
  const { scan, ours } = await askAny(
    chain,
    (endpoint) => rereadRange(endpoint, context, cursor, range, expected),
    1,
  );
  const outcomes = scan.vaultEvents.length > 0;
  if (outcomes) await context.failpoint?.("mined");
  const group = newGroup();
  const when = movedBy(group, chain.chain);
  let moved = await commitMove(context, group, [
    moveConfirmed(group, chain.chain, cursor, scan.last),
    deleteBlocks(chain.chain, range.to, when),
    ...recordDeposits(group, chain, ours, { confirmed: true, when }),
    orphanUnseen(group, { chain: chain.chain, above: 0, upTo: range.to, when }),
    ...creditConfirmed(group, settings, chain.chain, when),
    ...(outcomes ? applyVaultEvents(context, group, scan, when) : []),
    ...(scan.sweeps.length === 0 ? [] : [deleteSwept(context, scan.sweeps, when)]),
    ...(scan.sweepFailures.length === 0
      ? []
      : [backOffSweep(context, group, scan.sweepFailures, when)]),
    ...announceDeposits(group),
    ...announceWithdrawals(group),
  ]);
  if (outcomes) await context.failpoint?.("confirmed");
  for (
    let groups = 0;
    groups < CREDIT_GROUPS && moved.haltedAt === null && (await hasDepositsDue(context));
    groups++
  )
    moved = await creditRemaining(context, moved);
  return moved;
}

type ExpectedRange = {
  readonly blockHash: string | null;
  readonly deposits: readonly {
    tx: string;
    token: string;
    ordinal: number;
    position: number;
    block: number;
    hash: string;
  }[];
};

/** Reads what the first reading found. The second may differ only where the chain has changed. */
async function readExpected({ db, chain }: WatcherContext, range: Range): Promise<ExpectedRange> {
  const blocks = await readBlocks(db, chain.chain, range.to - 1);
  const deposits = await all<ExpectedRange["deposits"][number]>(
    db,
    sql`SELECT lower(hex(transaction_hash)) AS tx, lower(hex(token)) AS token, ordinal, position,
        block_number AS block, lower(hex(block_hash)) AS hash
      FROM deposits
      WHERE chain = ${chain.chain} AND status = 'confirming' AND confirmed_group IS NULL
        AND block_number BETWEEN ${range.from} AND ${range.to}`,
  );
  return { blockHash: blocks.find((block) => block.number === range.to)?.hash ?? null, deposits };
}

async function rereadRange(
  endpoint: Endpoint,
  context: WatcherContext,
  cursor: Cursor,
  range: Range,
  expected: ExpectedRange,
): Promise<{ scan: Scan; ours: SeenTransfer[] }> {
  const { db, settings, chain } = context;
  const scan = await scanRange(endpoint, range, watchedContracts(settings, chain));
  if (scan.first.parentHash !== cursor.confirmed.hash)
    throw new NodeDisagrees(`block ${range.from} is not a child of the confirmed block`);
  if (expected.blockHash !== null && expected.blockHash !== scan.last.hash)
    throw new NodeDisagrees(`block ${range.to} has another hash than when it was scanned`);
  const ours = await transfersToUs(db, settings, chain, scan.transfers);
  for (const deposit of expected.deposits) {
    const found = ours.some(
      (one) =>
        one.tx === deposit.tx &&
        one.token === deposit.token &&
        one.ordinal === deposit.ordinal &&
        one.position === deposit.position,
    );
    if (found) continue;
    const block = await readHeader(endpoint, deposit.block);
    if (block.hash === `0x${deposit.hash}`)
      throw new NodeDisagrees(`the logs of block ${deposit.block} lack a transfer seen before`);
  }
  return { scan, ours };
}

function applyVaultEvents({ chain }: WatcherContext, group: Group, scan: Scan, when: Sql): Sql[] {
  return [
    recordVaultEvents(group, chain.chain, scan.vaultEvents, when),
    ...settlePaid(group, chain.chain),
    ...failUnpayable(group),
    endMembers(group),
    requeueSkipped(group),
    ...alertUnexpectedPayments(group, chain.chain),
  ];
}

/** Deletes the sweepable rows of addresses that were swept at or after their last deposit. */
function deleteSwept(
  { settings, chain }: WatcherContext,
  sweeps: readonly Swept[],
  when: Sql,
): Sql {
  const rows = sweeps.flatMap((swept) => {
    const asset =
      assetOf(settings, chain, swept.token, null) ??
      assetOf(settings, chain, swept.token, swept.tokenId);
    return asset === undefined
      ? []
      : [{ asset, address: swept.account.slice(2), block: swept.blockNumber }];
  });
  return sql`DELETE FROM sweepable WHERE chain = ${chain.chain} AND ${when} AND EXISTS (
    SELECT 1 FROM json_each(${JSON.stringify(rows)}) j
    WHERE sweepable.asset = j.value ->> 'asset' AND sweepable.address = unhex(j.value ->> 'address')
      AND sweepable.block_number <= j.value ->> 'block')`;
}

/**
 * Delays the next sweep of an address whose token rejected it. Otherwise every round would retry.
 */
function backOffSweep(
  { settings, chain }: WatcherContext,
  group: Group,
  failures: readonly SweepFailed[],
  when: Sql,
): Sql {
  const rows = failures.flatMap((failure) => {
    const asset =
      assetOf(settings, chain, failure.token, null) ??
      assetOf(settings, chain, failure.token, failure.tokenId);
    return asset === undefined ? [] : [{ asset, salt: failure.salt.slice(2) }];
  });
  return sql`UPDATE sweepable SET not_before = ${group.at} + ${SWEEP_FAILED_WAIT_MS}
    WHERE chain = ${chain.chain} AND ${when} AND EXISTS (
      SELECT 1 FROM json_each(${JSON.stringify(rows)}) j
      JOIN deposit_addresses a ON a.chain = sweepable.chain AND a.address = sweepable.address
      WHERE sweepable.asset = j.value ->> 'asset' AND a.salt = unhex(j.value ->> 'salt'))`;
}

async function hasDepositsDue({ db, chain }: WatcherContext): Promise<boolean> {
  const [row] = await all<{ n: number }>(db, depositsDue(chain.chain));
  return row?.n === 1;
}

/** Credits deposits that the range's group left. The cursor is stamped but does not move. */
async function creditRemaining(context: WatcherContext, cursor: Cursor): Promise<Cursor> {
  const group = newGroup();
  const { chain } = context;
  return commitMove(context, group, [
    moveConfirmed(group, chain.chain, cursor, cursor.confirmed),
    ...creditConfirmed(group, context.settings, chain.chain, movedBy(group, chain.chain)),
    ...announceDeposits(group),
  ]);
}
