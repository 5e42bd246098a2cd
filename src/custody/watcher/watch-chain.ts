/**
 * Runs one round of a chain's watcher: detects deposits up to the head, then confirms blocks
 * (confirm-blocks.ts). Each part moves the cursor in the batch of what it found, so a range that is
 * read twice changes nothing, and of two watchers one moves. Only confirmed blocks are credited.
 */
import { alertRow, raiseAlert, clearAlert, closedAlert } from "../../platform/alert.ts";
import {
  type Cursor,
  storeBlocks,
  movedBy,
  moveScanned,
  insertCursor,
  readBlocks,
  readCursor,
} from "../../chain/chain-cursor.ts";
import {
  type Block,
  followHead,
  hashesAt,
  type HeadReading,
  type Heights,
  readHeights,
  replacementOf,
  type SeenHash,
} from "../../chain/follow-head.ts";
import { askAny, type Endpoint, readHeader, readHead } from "../../chain/rpc.ts";
import { watchedContracts } from "../../chain/scan.ts";
import { askAgreed } from "../../chain/witnesses.ts";
import { commitOrThrow, newGroup, NOW } from "../../platform/commit.ts";
import { blob, sql, all, first, expr } from "../../platform/sql.ts";
import { announceDeposits } from "../custody-events.ts";
import { type WatcherContext, commitMove, rangeLimit } from "./commit-move.ts";
import { confirmBlocks } from "./confirm-blocks.ts";
import {
  recordDeposits,
  transfersToUs,
  withinRoom,
  orphanUnseen,
  trimOrphaned,
} from "./detect-deposits.ts";
import { witnessesOf } from "../../platform/config.ts";

/** Limit of ranges confirmed in one round, so that catching up does not block the object. */
const RANGES_PER_ROUND = 20;
/** Time for which a single endpoint counts as lagging if its head is behind an earlier one. */
const KNOWN_HEAD_MS = 60_000;

export type WatchRound =
  | { readonly status: "followed"; readonly behind: boolean; readonly witnessLag: number }
  | { readonly status: "halted"; readonly behind: false };

export async function watchChain(context: WatcherContext): Promise<WatchRound> {
  const { db, chain } = context;
  await resumeChain(context);
  let cursor = (await readCursor(db, chain.chain)) ?? (await startChain(context));
  if (cursor.haltedAt !== null) return { status: "halted", behind: false };

  const heights = await readHeights(chain);
  try {
    return await followChain(context, cursor, heights);
  } catch (error) {
    // Whichever step fails, a deep reorg may be the reason.
    cursor = (await readCursor(db, chain.chain)) ?? cursor;
    const { number, hash } = cursor.confirmed;
    const seen = await hashesAt(chain, number, headToReach(context, cursor, heights));
    const canonical = replacementOf(chain, hash, seen);
    if (canonical === undefined) {
      await alertFork(context, cursor.confirmed, seen);
      throw error;
    }
    const reason = `confirmed block ${number} changed from ${hash} to ${canonical}`;
    await haltChain(context, cursor.confirmed, reason);
    return { status: "halted", behind: false };
  }
}

async function followChain(
  context: WatcherContext,
  start: Cursor,
  heights: Heights,
): Promise<WatchRound> {
  const { db, chain } = context;
  const known = {
    confirmed: start.confirmed,
    headNumber: headToReach(context, start, heights),
    blocksBelow: (below: number) =>
      readBlocks(db, chain.chain, { above: start.confirmed.number, below }),
  };
  const options = {
    target: heights.target,
    contracts: watchedContracts(context.settings, chain),
    range: rangeLimit(context),
  };
  // Another endpoint each time, because one may lie.
  const reading = await askAny(
    chain,
    (endpoint) => followHead(endpoint, known, options),
    context.firstEndpoint,
  );
  await alertFinality(context, heights);
  let cursor = await detectDeposits(context, start, reading, heights);
  const isBehind = () => cursor.confirmed.number < heights.target;
  for (let ranges = 0; ranges < RANGES_PER_ROUND && isBehind(); ranges++)
    cursor = await confirmBlocks(context, cursor, heights.target);
  return { status: "followed", behind: isBehind(), witnessLag: heights.witnessLag };
}

/** Stops crediting and paying on a chain until an operator resumes it. Records stay as they are. */
async function haltChain(
  { db, chain }: WatcherContext,
  confirmed: Block,
  reason: string,
): Promise<void> {
  const group = newGroup();
  const halted = sql`EXISTS (SELECT 1 FROM chain_cursors
    WHERE chain = ${chain.chain} AND halted_at = ${group.at})`;
  await commitOrThrow(db, group, [
    // With the hash, because `chain resume` may have accepted the other block meanwhile.
    sql`UPDATE chain_cursors SET halted_at = ${group.at}, halt_reason = ${reason}
      WHERE chain = ${chain.chain} AND halted_at IS NULL
        AND confirmed_number = ${confirmed.number} AND confirmed_hash = ${blob(confirmed.hash)}`,
    alertRow(group, "chain_halted", chain.chain, reason, halted),
  ]);
}

/** Reports endpoints that contradict each other about the confirmed block. */
async function alertFork(
  { db, chain }: WatcherContext,
  confirmed: Block,
  seen: readonly SeenHash[],
): Promise<void> {
  const deny = seen.filter(({ hash }) => hash !== confirmed.hash).map(({ host }) => host);
  if (deny.length === 0 || deny.length === seen.length) return;
  const show = seen.filter(({ hash }) => hash === confirmed.hash).map(({ host }) => host);
  const detail =
    `${deny.join(" and ")} no longer has the confirmed block ${confirmed.number}, ` +
    `but ${show.join(" and ")} has it`;
  await raiseAlert(db, "nodes_disagree", chain.chain, detail);
}

/** The head that an endpoint must have reached. Otherwise it lags and is not used. */
function headToReach({ chain }: WatcherContext, cursor: Cursor, { head }: Heights): number {
  if (witnessesOf(chain) === 2) return Math.max(head, cursor.confirmed.number);
  // What a single endpoint reported is dropped after a minute, because it may have been wrong.
  return Date.now() - cursor.movedAt < KNOWN_HEAD_MS ? cursor.headNumber : 0;
}

async function startChain(context: WatcherContext): Promise<Cursor> {
  const { chain } = context;
  const readFirst = async (endpoint: Endpoint) => {
    if ((await endpoint.client.getChainId()) !== chain.chain_id)
      throw new Error(`the endpoint does not serve chain id ${chain.chain_id}`);
    const { number, hash } = await readHeader(endpoint, Math.max(chain.start_block - 1, 0));
    return { number, hash };
  };
  const { value: start } = await askAgreed(chain, readFirst);
  const group = newGroup();
  return commitMove(context, group, [insertCursor(group, chain.chain, start)]);
}

async function detectDeposits(
  context: WatcherContext,
  cursor: Cursor,
  reading: HeadReading,
  heights: Heights,
): Promise<Cursor> {
  const { chain } = context;
  // A single endpoint may report any head, so only the blocks that were read count.
  const known = witnessesOf(chain) === 2 ? heights.head : reading.readUpTo;
  // As it is stored. Else every round would move the cursor while an endpoint is behind it.
  const headNumber = Math.max(known, cursor.confirmed.number);
  const top = reading.blocks.at(-1);
  const unchanged =
    top === undefined || (top.number === cursor.scanned.number && top.hash === cursor.scanned.hash);
  if (unchanged && reading.base >= cursor.scanned.number && headNumber === cursor.headNumber)
    return cursor;
  const seen = await withinRoom(context, await transfersToUs(context, reading.transfers));
  const group = newGroup();
  const when = movedBy(group, chain.chain);
  const scanned = top ?? (reading.base < cursor.scanned.number ? cursor.confirmed : cursor.scanned);
  return commitMove(context, group, [
    moveScanned(group, chain.chain, cursor, { scanned, headNumber }),
    ...storeBlocks(chain.chain, reading.ancestor, reading.blocks, when),
    ...recordDeposits(group, chain, seen, { confirmed: false, when }),
    orphanUnseen(group, { chain: chain.chain, above: reading.base, upTo: null, when }),
    trimOrphaned(chain.chain),
    ...announceDeposits(group),
  ]);
}

/** Stores when the finalized block, or the head, last rose. Raises the alert if it is long ago. */
async function alertFinality(
  { db, chain }: WatcherContext,
  { head, finalized }: Heights,
): Promise<void> {
  const height = finalized ?? head;
  const known = await first<{ height: number | null; stalled: number; open: number }>(
    db,
    sql`SELECT finalized_number AS height,
        coalesce(finalized_at < ${NOW} - ${chain.finality_stall_secs * 1_000}, 0) AS stalled,
        EXISTS (SELECT 1 FROM alerts WHERE kind = 'finality_stalled' AND subject = c.chain
          AND resolved_at IS NULL) AS open
      FROM chain_cursors c WHERE chain = ${chain.chain}`,
  );
  if (known === undefined) return;
  // A stored number above the head came from a node that made it up.
  const rose = known.height === null || known.height < height || known.height > head;
  if (rose) {
    await all(
      db,
      sql`UPDATE chain_cursors SET finalized_number = ${height}, finalized_at = ${NOW}
        WHERE chain = ${chain.chain}`,
    );
    if (known.open === 1) await clearAlert(db, "finality_stalled", chain.chain);
  } else if (known.stalled === 1 && known.open === 0) {
    const secs = chain.finality_stall_secs;
    const stalled =
      finalized === null
        ? `the head that enough endpoints have reached has been at block ${head} for more than ` +
          `${secs} seconds. Compare the endpoints, and replace one that is stuck in RPC_URLS: ` +
          "operator chain status"
        : `finalized has been at block ${known.height} for more than ${secs} seconds, the head is ` +
          `at ${head}`;
    await raiseAlert(db, "finality_stalled", chain.chain, `crediting waits: ${stalled}`);
  }
}

/**
 * Accepts the chain's current block at the confirmed height and continues above it. The review
 * handles deposits that a reorg changed below. A newer halt stays, because it was not reviewed.
 */
async function resumeChain({ db, chain }: WatcherContext): Promise<void> {
  const command = await first<{ id: number; at: number }>(
    db,
    sql`SELECT command_id AS id, at FROM chain_commands
      WHERE chain = ${chain.chain} AND kind = 'resume_chain' AND done_group IS NULL LIMIT 1`,
  );
  const cursor = await readCursor(db, chain.chain);
  if (command === undefined || cursor === undefined) return;
  const readAnchor = async (endpoint: Endpoint) => ({
    head: (await readHead(endpoint, cursor.confirmed.number)).number,
    confirmed: await readHeader(endpoint, cursor.confirmed.number),
  });
  const hashOf = ({ confirmed }: { confirmed: Block }) => confirmed.hash;
  const { value: anchor } = await askAgreed(chain, readAnchor, 0, hashOf);
  const group = newGroup();
  const halted = expr`EXISTS (SELECT 1 FROM chain_cursors
    WHERE chain = ${chain.chain} AND halted_at IS NOT NULL)`;
  await commitOrThrow(db, group, [
    sql`UPDATE chain_cursors SET halted_at = NULL, halt_reason = NULL,
        confirmed_hash = ${blob(anchor.confirmed.hash)},
        scanned_number = confirmed_number, scanned_hash = ${blob(anchor.confirmed.hash)},
        head_number = ${anchor.head}, moved_group = ${group.seq}, moved_at = ${group.at}
      WHERE chain = ${chain.chain} AND halted_at <= ${command.at}
        AND confirmed_number = ${cursor.confirmed.number}`,
    // Without a halt, too, because a faulty endpoint may have reported a head far ahead.
    sql`UPDATE chain_cursors SET head_number = ${anchor.head} WHERE chain = ${chain.chain}`,
    sql`DELETE FROM chain_blocks WHERE chain = ${chain.chain}`,
    closedAlert(group, "chain_halted", chain.chain, expr`NOT ${halted}`),
    sql`UPDATE chain_commands SET done_group = ${group.seq},
        result = iif(${halted}, 'halted again', 'resumed')
      WHERE command_id = ${command.id}`,
  ]);
}
