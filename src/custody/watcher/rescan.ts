/**
 * Reads confirmed blocks again: for a restore, for `chain rescan`, and when they are a day old.
 * Known deposits and vault events do not change, so only what was missed is credited or settled.
 */
import { alertRow } from "../../platform/alert.ts";
import { type Cursor, readCursor } from "../../chain/chain-cursor.ts";
import { readHeader } from "../../chain/rpc.ts";
import type { Range } from "../../chain/scan.ts";
import { type Group, newGroup } from "../../platform/commit.ts";
import { type Expr, expr, first, type Sql, sql } from "../../platform/sql.ts";
import { announceDeposits, announceWithdrawals } from "../custody-events.ts";
import { askAgreed } from "../../chain/witnesses.ts";
import { applyVaultEvents } from "./settle-withdrawal.ts";
import { commitMove, type WatcherContext, rangeLimit } from "./commit-move.ts";
import { creditConfirmed } from "./credit-deposit.ts";
import { recordDeposits } from "./detect-deposits.ts";
import { readConfirmed } from "./read-confirmed.ts";
import {
  announceSmallDeposits,
  recordSmallDeposits,
  smallDepositsRecorded,
} from "./small-deposits.ts";

/** Limit of ranges per round of the watcher, so that a long rescan does not delay the head. */
const RANGES_PER_ROUND = 10;
/** Age of the blocks that are rechecked. By then an endpoint with a gap has filled it. */
const RECHECK_LAG_SECS = 86_400n;

/** Reads the range above `block` again. Returns its last block. Null: no confirmed one is left. */
export async function rescanFrom(context: WatcherContext, block: number): Promise<number | null> {
  const cursor = await readCursor(context.db, context.chain.chain);
  if (cursor === undefined || block >= cursor.confirmed.number) return null;
  const to = Math.min(cursor.confirmed.number, block + rangeLimit(context));
  await rescanRange(context, cursor, { from: block + 1, to });
  return to >= cursor.confirmed.number ? null : to;
}

/** Commits what was missed in a range, with `alongside`. `found`: the number of deposits missed. */
async function rescanRange(
  context: WatcherContext,
  cursor: Cursor,
  range: Range,
  alongside: (group: Group, when: Sql, found: Expr) => readonly Sql[] = () => [],
): Promise<void> {
  const { settings, chain } = context;
  const { scan, ours } = (await readConfirmed(context, range, cursor.confirmed)).value;
  const group = newGroup();
  const when = sql`EXISTS (SELECT 1 FROM chain_cursors
    WHERE chain = ${chain.chain} AND halted_at IS NULL
      AND confirmed_number >= ${cursor.confirmed.number})`;
  const deposits = [
    ...recordDeposits(group, chain, ours, { confirmed: true, when }),
    ...recordSmallDeposits(group, chain, ours, when),
    ...creditConfirmed(group, settings, chain.chain, when),
    ...announceDeposits(group),
    ...announceSmallDeposits(group, ours),
  ];
  const found = expr`(SELECT count(*) FROM deposits
    WHERE detected_group = ${group.seq} AND chain = ${chain.chain})
    + ${smallDepositsRecorded(ours)}`;
  const outcomes = [
    ...applyVaultEvents(group, context, scan.vaultEvents, when),
    ...announceWithdrawals(group),
  ];
  const work = [
    ...(ours.length === 0 ? [] : deposits),
    ...(scan.vaultEvents.length === 0 ? [] : outcomes),
    ...alongside(group, when, found),
  ];
  if (work.length > 0) await commitMove(context, group, work);
}

/** Carries out the oldest `chain rescan`. A range and its progress are one batch. True: go on. */
export async function rescanOnCommand(context: WatcherContext): Promise<boolean> {
  const { db, chain } = context;
  for (let ranges = 0; ranges < RANGES_PER_ROUND; ranges++) {
    const command = await first<{ id: number; from: number; to: number }>(
      db,
      sql`SELECT command_id AS id, from_block AS "from", to_block AS "to" FROM chain_commands
        WHERE chain = ${chain.chain} AND kind = 'rescan' AND done_group IS NULL
        ORDER BY command_id LIMIT 1`,
    );
    const cursor = await readCursor(db, chain.chain);
    if (command === undefined || cursor === undefined || cursor.haltedAt !== null) return false;
    // A reorg that the operator accepted can leave the confirmed block below the command's.
    if (command.to > cursor.confirmed.number) return false;
    const to = Math.min(command.to, command.from + rangeLimit(context) - 1);
    await rescanRange(context, cursor, { from: command.from, to }, (group, when, found) => [
      sql`UPDATE chain_commands SET from_block = ${to + 1},
          result = CAST(coalesce(CAST(result AS INTEGER), 0) + ${found} AS TEXT),
          done_group = ${to === command.to ? group.seq : sql`NULL`}
        WHERE command_id = ${command.id} AND done_group IS NULL AND ${when}`,
    ]);
  }
  return true;
}

/** Reads the next range that is a day old. Credits what was missed, with an alert. True: go on. */
export async function recheckOldBlocks(context: WatcherContext): Promise<boolean> {
  const { db, chain } = context;
  const cursor = await readCursor(db, chain.chain);
  if (cursor === undefined || cursor.haltedAt !== null) return false;
  const from = (cursor.recheckedNumber ?? Math.max(chain.start_block - 1, 0)) + 1;
  const to = from + rangeLimit(context) - 1;
  if (to > cursor.confirmed.number || !(await isOld(context, cursor, to))) return false;
  const missed =
    `A deposit in blocks ${from} to ${to} was missed and is credited now. ` +
    "Check the RPC endpoints.";
  await rescanRange(context, cursor, { from, to }, (group, when, found) => [
    sql`UPDATE chain_cursors SET rechecked_number = ${to} WHERE chain = ${chain.chain} AND ${when}`,
    alertRow(group, "deposit_missed", chain.chain, missed, sql`${found} > 0`),
  ]);
  return true;
}

async function isOld({ chain }: WatcherContext, cursor: Cursor, block: number): Promise<boolean> {
  const { value } = await askAgreed(chain, async (endpoint) => {
    const newest = await readHeader(endpoint, cursor.confirmed.number);
    return (await readHeader(endpoint, block)).timestamp <= newest.timestamp - RECHECK_LAG_SECS;
  });
  return value;
}
