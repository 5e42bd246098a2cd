/**
 * Deposits below the asset's `min_deposit`. They wait in a table of short rows, because a deposit
 * with its entry takes six times as many bytes and anyone can cause any number of them. They are
 * recorded once confirmed, so a reorg cannot multiply them, and credited, each with its own entry,
 * once those of one address and token reach the minimum or come with a larger deposit.
 */
import { readAssetKey } from "../../assets/asset.ts";
import { type Group, commitOrThrow, newGroup } from "../../platform/commit.ts";
import type { ChainConfig } from "../../platform/config.ts";
import { type Expr, expr, raw, type Sql, sql, first, TRUE } from "../../platform/sql.ts";
import { announce } from "../../platform/announce.ts";
import { depositChanged } from "../custody-events.ts";
import {
  chunksOf,
  fromOutside,
  KEY_END,
  PAIR_DIGITS,
  recordedDeposit,
  type SeenTransfer,
} from "./detect-deposits.ts";
import type { WatcherContext } from "./commit-move.ts";

/** Rows of one address and token that are summed, the largest first. */
export const SUMMED_ROWS = 1_000;
/** Rows that one group moves. It credits as many deposits (credit-deposit.ts). */
const MOVES_PER_GROUP = 500;

/** Statements that record the small ones of the confirmed transfers and mark what is due. */
export function recordSmallDeposits(
  group: Group,
  chain: ChainConfig,
  transfers: readonly SeenTransfer[],
  when: Sql,
): Sql[] {
  const inserts = chunksOf(transfers.filter(({ small }) => small).map(withAssetId)).map(
    (rows) => sql`INSERT INTO small_deposits (key, deposit_id, user_id, chain, nonce,
        transaction_hash, token, ordinal, position, block_number, venue, asset_id, amount,
        required_confirmations, detected_at, due)
      SELECT unhex(j.value ->> 'key'), unhex(j.value ->> 'id', '-'), a.user_id, ${chain.chain},
        a.nonce, unhex(j.value ->> 'tx'), unhex(j.value ->> 'token'), j.value ->> 'ordinal',
        j.value ->> 'position', j.value ->> 'block', j.value ->> 'venue',
        unhex(j.value ->> 'assetId'), CAST(j.value ->> 'amount' AS INTEGER),
        ${chain.confirmations}, ${group.at}, 0
      ${fromOutside(chain, rows, when)} AND ${recordedDeposit(chain, "status")} IS NULL
      ON CONFLICT (key) DO NOTHING`,
  );
  const marks = chunksOf(transfers).map((rows) =>
    markDue(
      sql`SELECT substr(j.value ->> 'key', 1, ${PAIR_DIGITS}) AS pair,
          max(j.value ->> 'floor') AS floor,
          max(NOT j.value ->> 'small'
            AND ${recordedDeposit(chain, "confirmed_group")} IS ${group.seq}) AS with_larger
        FROM json_each(${rows}) j GROUP BY pair`,
      when,
    ),
  );
  return [...inserts, ...marks];
}

/** SQLite sees the id as bytes, which is half of its text. */
function withAssetId(transfer: SeenTransfer) {
  const token = readAssetKey(transfer.asset);
  const digits = token?.assetId.slice(2);
  const assetId = digits?.padStart(digits.length + (digits.length % 2), "0");
  return { ...transfer, venue: token?.venue, assetId };
}

/**
 * Marks rows as due. `pairs` selects `pair`, the first part of keys as hex, `floor`, which their
 * sum must reach, and `with_larger`, which marks them in any case.
 */
export function markDue(pairs: Sql, when: Sql): Sql {
  const end = raw(`unhex(p.pair || '${KEY_END}')`);
  const largest = sql`FROM small_deposits k WHERE k.key BETWEEN unhex(p.pair) AND ${end}
    ORDER BY k.key`;
  return sql`WITH reached AS MATERIALIZED (
      SELECT p.pair,
        coalesce((SELECT k.key ${largest} LIMIT 1 OFFSET ${SUMMED_ROWS - 1}), ${end}) AS last
      FROM (${pairs}) p WHERE p.with_larger OR p.floor <=
        (SELECT sum(amount) FROM (SELECT k.amount ${largest} LIMIT ${SUMMED_ROWS})))
    UPDATE small_deposits SET due = 1 WHERE due = 0 AND ${when} AND small_id IN (
      SELECT s.small_id FROM reached p CROSS JOIN small_deposits s
        ON s.key BETWEEN unhex(p.pair) AND p.last)`;
}

/** Statements that move due rows to `deposits`, where the same group credits them. */
export function moveDueDeposits(group: Group, chain: string, when: Sql): Sql[] {
  const due = expr`s.chain = ${chain} AND s.due = 1 AND ${when}`;
  return moveDeposits(group, due, { status: "confirming", limit: MOVES_PER_GROUP });
}

/** Statements that move one row to `deposits` as orphaned, for the operator. */
export function orphanSmallDeposit(group: Group, id: Expr): Sql[] {
  // A scan of an index, because such a command is rare.
  const named = expr`s.deposit_id = ${id}`;
  return moveDeposits(group, named, { status: "orphaned", limit: 1 });
}

/** A transfer that `deposits` contains already is not moved, but its row is deleted. */
function moveDeposits(
  group: Group,
  condition: Expr,
  to: { readonly status: "confirming" | "orphaned"; readonly limit: number },
): Sql[] {
  const chosen = sql`SELECT s.small_id FROM small_deposits s WHERE ${condition}
    ORDER BY s.small_id LIMIT ${to.limit}`;
  // Before a reorg another address may have received what is in the same place.
  const known = (row: string, address: string) =>
    raw(`EXISTS (SELECT 1 FROM deposits k
    WHERE k.chain = ${row}.chain AND k.transaction_hash = ${row}.transaction_hash
      AND k.token = ${row}.token AND k.ordinal = ${row}.ordinal AND k.position = ${row}.position
      AND k.address = ${address})`);
  const address = `(SELECT a.address FROM deposit_addresses a
    WHERE a.user_id = small_deposits.user_id AND a.chain = small_deposits.chain
      AND a.nonce = small_deposits.nonce)`;
  const confirming = to.status === "confirming";
  return [
    sql`INSERT INTO deposits (deposit_id, chain, transaction_hash, token, ordinal, position,
        block_number, address, user_id, asset, amount, required_confirmations, status, seen_group,
        confirmed_group, detected_at, detected_group, ended_group)
      SELECT deposit_id, chain, transaction_hash, token, ordinal, position, block_number, address,
        user_id, asset, amount, required_confirmations, ${to.status}, ${group.seq},
        ${confirming ? group.seq : sql`NULL`}, detected_at,
        iif(detected_at = ${group.at}, ${group.seq}, 0), ${confirming ? sql`NULL` : group.seq}
      FROM small_deposit_records s WHERE s.small_id IN (${chosen}) AND NOT ${known("s", "s.address")}
      ON CONFLICT DO NOTHING RETURNING 1`,
    sql`DELETE FROM small_deposits WHERE small_id IN (${chosen})
      AND ${known("small_deposits", address)}`,
  ];
}

/** Announces what the group has recorded and not credited. */
export function announceSmallDeposits(group: Group, transfers: readonly SeenTransfer[]): Sql[] {
  return smallIds(transfers).flatMap((rows) =>
    announce(
      group,
      sql`SELECT d.user_id AS stream, ${depositChanged()},
          hex(d.deposit_id) AS ord
        FROM ${recordedNow(rows)}`,
    ),
  );
}

/** Scalar: how many of the transfers this batch has recorded and not credited. */
export function smallDepositsRecorded(transfers: readonly SeenTransfer[]): Sql {
  const counts = smallIds(transfers).map(
    (rows) => sql`(SELECT count(*) FROM ${recordedNow(rows)})`,
  );
  return counts.reduce((sum, count) => sql`${sum} + ${count}`, sql`0`);
}

function smallIds(transfers: readonly SeenTransfer[]): string[] {
  return chunksOf(transfers.filter(({ small }) => small).map(({ id, key }) => ({ id, key })));
}

/** An earlier reading of the same transfer has another id. */
function recordedNow(rows: string): Sql {
  return sql`json_each(${rows}) j CROSS JOIN small_deposit_records d
    ON d.key = unhex(j.value ->> 'key') AND d.deposit_id = unhex(j.value ->> 'id', '-')`;
}

/** Rows per group. Each may belong to another address with up to a thousand rows to sum. */
const ROWS_PER_GROUP = 500;

/** Checks the next rows and marks what is due. Returns true if more rows are left. */
export async function recheckFloors(context: WatcherContext): Promise<boolean> {
  const { db, settings, chain } = context;
  const venues = settings.VENUES.filter((venue) => venue.chain === chain.chain);
  const floors = JSON.stringify([
    { venue: null, floor: chain.min_deposit },
    ...venues.map(({ venue_id, min_deposit }) => ({ venue: venue_id, floor: min_deposit })),
  ]);
  const was = await first<{ floors: string | null; after: number | null; last: number }>(
    db,
    sql`SELECT floors, floors_after AS after,
        coalesce((SELECT max(small_id) FROM small_deposits), 0) AS last
      FROM chain_cursors WHERE chain = ${chain.chain}`,
  );
  if (was === undefined || (was.floors === floors && was.after === null)) return false;
  const from = was.floors === floors ? (was.after ?? 0) : 0;
  const to = from + ROWS_PER_GROUP;
  // Rows that are recorded meanwhile are checked when they are recorded.
  const more = to < was.last;
  await commitOrThrow(db, newGroup(), [
    markDue(
      sql`SELECT hex(substr(s.key, 1, 8)) AS pair, j.value ->> 'floor' AS floor, 0 AS with_larger
        FROM small_deposits s JOIN json_each(${floors}) j ON j.value ->> 'venue' IS s.venue
        WHERE s.small_id > ${from} AND s.small_id <= ${to} AND s.chain = ${chain.chain}
        GROUP BY 1`,
      TRUE,
    ),
    sql`UPDATE chain_cursors SET floors = ${floors}, floors_after = ${more ? to : null}
      WHERE chain = ${chain.chain} AND floors IS ${was.floors} AND floors_after IS ${was.after}`,
  ]);
  return more;
}
