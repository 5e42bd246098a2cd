/**
 * Confirms blocks: reads each range again once it has its confirmations (read-confirmed.ts), then
 * credits its deposits and applies the vault's events in the batch that moves the cursor.
 */
import { applyVaultEvents } from "./settle-withdrawal.ts";
import { type Cursor, deleteBlocks, movedBy, moveConfirmed } from "../../chain/chain-cursor.ts";
import type { Swept, SweepFailed } from "../../chain/decode-logs.ts";
import { alertRow } from "../../platform/alert.ts";
import { type Endpoint, InconsistentNode, readHeader } from "../../chain/rpc.ts";
import type { Range } from "../../chain/scan.ts";
import { assetOfEvent } from "../../chain/token.ts";
import { type Group, newGroup } from "../../platform/commit.ts";
import { all, listed, scalar, type Sql, sql } from "../../platform/sql.ts";
import { announceDeposits, announceWithdrawals } from "../custody-events.ts";
import { creditConfirmed, depositsDue } from "./credit-deposit.ts";
import { recordDeposits, type SeenTransfer, orphanUnseen } from "./detect-deposits.ts";
import { readConfirmed } from "./read-confirmed.ts";
import { announceSmallDeposits, recordSmallDeposits } from "./small-deposits.ts";
import { type WatcherContext, commitMove, rangeLimit } from "./commit-move.ts";
import { witnessesOf } from "../../platform/config.ts";

/** Wait before a failed sweep of an address is repeated. */
const SWEEP_FAILED_WAIT_MS = 3_600_000;
/** Limit of further groups for a range with more deposits than one group credits. */
const CREDIT_GROUPS = 100;

export async function confirmBlocks(
  context: WatcherContext,
  cursor: Cursor,
  target: number,
): Promise<Cursor> {
  const { settings, chain } = context;
  const range = {
    from: cursor.confirmed.number + 1,
    to: Math.min(target, cursor.confirmed.number + rangeLimit(context)),
  };
  const { value, endpoint } = await readConfirmed(context, range, cursor.confirmed);
  const { scan, ours } = value;
  const phantoms = await findPhantoms(context, range, ours, endpoint);
  const outcomes = scan.vaultEvents.length > 0;
  if (outcomes) await context.failpoint?.("mined");
  const group = newGroup();
  const when = movedBy(group, chain.chain);
  let moved = await commitMove(context, group, [
    moveConfirmed(group, chain.chain, cursor, scan.last),
    deleteBlocks(chain.chain, range.to, when),
    ...recordDeposits(group, chain, ours, { confirmed: true, when }),
    ...recordSmallDeposits(group, chain, ours, when),
    orphanUnseen(group, { chain: chain.chain, above: 0, upTo: range.to, when }),
    ...(phantoms.length === 0 ? [] : [alertPhantoms(group, chain.chain, phantoms, when)]),
    ...creditConfirmed(group, settings, chain.chain, when),
    ...(outcomes ? applyVaultEvents(group, context, scan.vaultEvents, when) : []),
    ...(scan.sweeps.length === 0 ? [] : [deleteSwept(context, scan.sweeps, when)]),
    ...(scan.sweepFailures.length === 0
      ? []
      : [backOffSweep(context, group, scan.sweepFailures, when)]),
    ...announceDeposits(group),
    ...announceSmallDeposits(group, ours),
    ...announceWithdrawals(group),
  ]);
  if (outcomes) await context.failpoint?.("confirmed");
  for (let groups = 0; groups < CREDIT_GROUPS && moved.haltedAt === null; groups++) {
    if ((await scalar<number>(context.db, depositsDue(chain.chain))) === 0) break;
    moved = await creditRemaining(context, moved);
  }
  return moved;
}

/** Detected deposits of one block that the confirmed reading lacks, and one of them. */
type Vanished = Readonly<Record<"hash" | "tx" | "token", string> & Record<"block" | "n", number>>;

/**
 * Finds detected deposits that the logs lack although their block is still in the chain. A faulty
 * endpoint invented them: they are orphaned with an alert. Anyone can cause many, so each block
 * costs one request. A single endpoint may omit logs for a while, so there a receipt decides.
 */
async function findPhantoms(
  { db, chain }: WatcherContext,
  range: Range,
  ours: readonly SeenTransfer[],
  endpoint: Endpoint,
): Promise<readonly Vanished[]> {
  const found = listed(
    ours.map(({ tx, token, ordinal, position }) => [tx, token, ordinal, position].join(" ")),
  );
  const vanished = await all<Vanished>(
    db,
    sql`SELECT block_number AS block, lower(hex(block_hash)) AS hash,
        lower(hex(transaction_hash)) AS tx, lower(hex(token)) AS token, count(*) AS n,
        min(deposit_id)
      FROM deposits WHERE chain = ${chain.chain} AND status = 'confirming'
        AND confirmed_group IS NULL
        AND block_number BETWEEN ${range.from} AND ${range.to}
        AND lower(hex(transaction_hash)) || ' ' || lower(hex(token)) || ' ' || ordinal || ' '
          || position NOT IN (${found})
      GROUP BY block_number, block_hash ORDER BY block_number`,
  );
  const hashes = new Map(ours.map(({ block, hash }) => [block, hash]));
  const phantoms: Vanished[] = [];
  for (const deposits of vanished) {
    const { block } = deposits;
    const hash =
      hashes.get(block) ?? (await readHeader(endpoint, block)).hash.slice(2).toLowerCase();
    hashes.set(block, hash);
    if (hash !== deposits.hash) continue;
    if (witnessesOf(chain) === 1 && (await isInReceipt(endpoint, deposits)))
      throw new InconsistentNode(`the logs of block ${block} lack a transfer of its receipts`);
    phantoms.push(deposits);
  }
  return phantoms;
}

async function isInReceipt({ client }: Endpoint, deposit: Vanished): Promise<boolean> {
  const receipt = await client.request({
    method: "eth_getTransactionReceipt",
    params: [`0x${deposit.tx}`],
  });
  return (
    receipt !== null &&
    receipt.blockHash === `0x${deposit.hash}` &&
    receipt.logs.some((log) => log.address.toLowerCase() === `0x${deposit.token}`)
  );
}

function alertPhantoms(group: Group, chain: string, phantoms: readonly Vanished[], when: Sql): Sql {
  const [{ tx, block } = { tx: "", block: 0 }] = phantoms;
  const count = phantoms.reduce((sum, { n }) => sum + n, 0);
  const detail =
    `${count} detected deposits are no longer in any endpoint's logs, first 0x${tx} ` +
    `in block ${block}. See: operator deposits list --status orphaned`;
  return alertRow(group, "deposit_phantom", chain, detail, when);
}

/**
 * Deletes the sweepable rows of addresses swept in a later block than their last deposit. In the
 * same block the deposit may have come after the sweep, so that row stays until the reconciliation
 * finds the address empty (tracked-holdings.ts).
 */
function deleteSwept(
  { settings, chain }: WatcherContext,
  sweeps: readonly Swept[],
  when: Sql,
): Sql {
  // A token that the service does not credit has no asset, so its row meets no condition.
  const rows = sweeps.map((swept) => ({
    asset: assetOfEvent(settings, chain, swept),
    address: swept.account.slice(2),
    block: swept.blockNumber,
  }));
  return sql`DELETE FROM sweepable WHERE chain = ${chain.chain} AND ${when} AND EXISTS (SELECT 1
    FROM json_each(${JSON.stringify(rows)}) j
    WHERE sweepable.asset = j.value ->> 'asset' AND sweepable.address = unhex(j.value ->> 'address')
      AND sweepable.block_number < j.value ->> 'block')`;
}

/** Delays the next sweep of an address whose token rejected it. Else every round would retry. */
function backOffSweep(
  { settings, chain }: WatcherContext,
  group: Group,
  failures: readonly SweepFailed[],
  when: Sql,
): Sql {
  const rows = failures.map((failure) => ({
    asset: assetOfEvent(settings, chain, failure),
    salt: failure.salt.slice(2),
  }));
  return sql`UPDATE sweepable SET not_before = ${group.at} + ${SWEEP_FAILED_WAIT_MS}
    WHERE chain = ${chain.chain} AND ${when} AND EXISTS (
      SELECT 1 FROM json_each(${JSON.stringify(rows)}) j
      JOIN deposit_addresses a ON a.chain = sweepable.chain AND a.address = sweepable.address
      WHERE sweepable.asset = j.value ->> 'asset' AND a.salt = unhex(j.value ->> 'salt'))`;
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
