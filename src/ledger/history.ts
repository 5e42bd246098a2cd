/**
 * Reads a user's ledger entries. A page merges the runs that its filter selects: entry-queries.ts
 * explains how, and why the length of the journal does not matter.
 *
 * A filter on amounts tries three ways in turn, from the cheapest on:
 *
 * 1. Merge the newest entries, as for any page, and merge more as long as enough of them fit.
 * 2. Merge the runs of an index by amount, one for each amount, unless there are too many.
 * 3. Alternate with growing limits until one of two reads is complete: sort all entries that fit,
 *    or scan the newest entries. This is the only way that reads entries it does not return. It
 *    reads only the user's own, and only if thousands of entries of many amounts fit, but few of
 *    the newest.
 */
import type { AssetKey } from "../assets/asset.ts";
import { Problem, unavailable } from "../platform/problem.ts";
import { all, first, type Sql } from "../platform/sql.ts";
import { type Reason, readReason } from "./codes.ts";
import { archivedEntries } from "./released.ts";
import {
  countedEntries,
  entriesOfRef,
  firstTransferSince,
  mergedByAmount,
  mergedEntries,
  scannedEntries,
  sortedEntries,
} from "./entry-queries.ts";
import { hasAmounts, type LedgerFilter, selectsNothing, type SubAccount } from "./filter.ts";

export { NEWEST } from "./entry-queries.ts";

export type EntryRow = {
  readonly entry_id: number;
  readonly account: SubAccount;
  readonly asset: AssetKey;
  /** Signed decimal native units. */
  readonly delta: string;
  readonly reason: Reason;
  /** A UUID in the form of `hex()`, or a deposit's `0x` transaction hash. */
  readonly ref: string;
  readonly balance_after: string;
  readonly at: number;
};
/** A row as the database returns it. */
type CodedRow = Omit<EntryRow, "reason"> & { readonly reason: number };

export type EntryPage = { readonly rows: readonly EntryRow[]; readonly more: boolean };
type PageRequest = { readonly before: bigint; readonly limit: number };

/** Returns up to `limit` of the user's entries below `before`, newest first. */
export async function readEntries(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  { before, limit }: PageRequest,
): Promise<EntryPage> {
  if (selectsNothing(filter)) return { rows: [], more: false };
  // One more than asked for shows whether more follow.
  const rows = await readRows(db, userId, filter, { before, limit: limit + 1 });
  if (rows.length <= limit && (await hasArchived(db, userId, filter, rows))) {
    // A page is never short. A full one ends where the archive begins.
    if (rows.length < limit)
      throw new Problem(unavailable("none", "The older entries cannot be reached.").data);
    return { rows: rows.map(withReasonName), more: true };
  }
  return { rows: rows.slice(0, limit).map(withReasonName), more: rows.length > limit };
}

/** Whether older entries than `rows` may be in the archive, which nothing reads yet. */
async function hasArchived(
  db: D1Database,
  userId: string,
  { refId, from }: LedgerFilter,
  rows: readonly unknown[],
): Promise<boolean> {
  // All transfers of a record are here, or none.
  if (refId !== undefined && rows.length > 0) return false;
  const found = await first<{ archived: number }>(db, archivedEntries(userId, from));
  return found?.archived === 1;
}

function readRows(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  page: PageRequest,
): Promise<CodedRow[]> {
  const { refId } = filter;
  if (refId !== undefined) return all(db, entriesOfRef(userId, { ...filter, refId }, page));
  if (hasAmounts(filter)) return readByAmount(db, userId, filter, page);
  return all(db, mergedEntries(userId, filter, page));
}

/** Runs of one amount that the second way merges, at some 3 µs each. */
const MAX_AMOUNT_RUNS = 1_000;

async function readByAmount(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  page: PageRequest,
): Promise<CodedRow[]> {
  const { rows, rest } = await readNewest(db, userId, filter, page);
  if (rest === undefined) return rows;
  const byAmount = mergedByAmount(userId, filter, { ...rest, maxRuns: MAX_AMOUNT_RUNS });
  const merged = await readUnlessMore(db, byAmount, MAX_AMOUNT_RUNS);
  return rows.concat(merged ?? (await readAlternately(db, userId, filter, rest)));
}

/** Entries that the first way merges at once, at least. */
const MIN_MERGE = 256;
/** The first way continues if it expects to complete the page within this many first merges. */
const MAX_MERGE_GROWTH = 8;
/** How much more is merged than needed if entries fit as often as they did so far. */
const MERGE_MARGIN = 1.25;

/** The first way. `rest` is what the page still lacks, or undefined if it is complete. */
async function readNewest(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  page: PageRequest,
): Promise<{ rows: CodedRow[]; rest: PageRequest | undefined }> {
  const rows: CodedRow[] = [];
  const firstLimit = Math.max(MIN_MERGE, page.limit);
  let { before } = page;
  let limit = firstLimit;
  while (limit <= MAX_MERGE_GROWTH * firstLimit) {
    const merged = await all<CodedRow & { fits: number; merged_count: number }>(
      db,
      mergedEntries(userId, filter, { before, limit }),
    );
    const fitting = merged.filter((row) => row.fits === 1);
    rows.push(...fitting);
    const last = merged.at(-1);
    const ended = last === undefined || last.merged_count < limit;
    if (ended || rows.length >= page.limit) return { rows, rest: undefined };
    before = BigInt(last.entry_id);
    // Infinite if nothing fits, which ends the loop.
    limit = Math.ceil((MERGE_MARGIN * (page.limit - rows.length) * limit) / fitting.length);
  }
  return { rows, rest: { before, limit: page.limit - rows.length } };
}

/** Reads a query that counts what it found; undefined if that is more than the query's limit. */
async function readUnlessMore(
  db: D1Database,
  query: Sql,
  limit: number,
): Promise<CodedRow[] | undefined> {
  const rows = await all<{ readonly size: number } & (CodedRow | { readonly entry_id: null })>(
    db,
    query,
  );
  if ((rows[0]?.size ?? 0) > limit) return undefined;
  return rows.filter((row) => row.entry_id !== null);
}

/** Entries that are sorted, at some 0.3 µs each, and transfers that are scanned, at 1 µs each. */
type Attempt = { readonly maxSorted?: number; readonly span: bigint };
const ATTEMPTS: readonly Attempt[] = [
  { maxSorted: 10_000, span: 16_384n },
  { maxSorted: 80_000, span: 65_536n },
  { maxSorted: 640_000, span: 131_072n },
];
/** After these, scans only. One takes D1 at most some 0.2 s, even if one user owns every entry. */
const LAST_ATTEMPT: Attempt = { span: 131_072n };

/** The third way. */
async function readAlternately(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  page: PageRequest,
): Promise<CodedRow[]> {
  const rows: CodedRow[] = [];
  const bottom = await firstTransfer(db, filter);
  let { before } = page;
  for (let attempt = 0; rows.length < page.limit && before > 2n * bottom; attempt++) {
    const { maxSorted, span } = ATTEMPTS[attempt] ?? LAST_ATTEMPT;
    const rest = { before, limit: page.limit - rows.length };
    if (maxSorted !== undefined) {
      const query = sortedEntries(userId, filter, { ...rest, maxEntries: maxSorted });
      const sorted = await readUnlessMore(db, query, maxSorted);
      if (sorted !== undefined) return rows.concat(sorted);
    }
    const floor = before / 2n > span ? before / 2n - span : 0n;
    rows.push(...(await all<CodedRow>(db, scannedEntries(userId, filter, { ...rest, floor }))));
    before = 2n * floor;
  }
  return rows;
}

async function firstTransfer(db: D1Database, { from }: LedgerFilter): Promise<bigint> {
  if (from === undefined) return 1n;
  const found = await first<{ first: number }>(db, firstTransferSince(from));
  return BigInt(found?.first ?? 1);
}

/** Counts the entries below a position, up to `most`, for a filter without `refId`. */
export async function countEntries(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  page: { before: bigint; most: number },
): Promise<number> {
  if (selectsNothing(filter)) return 0;
  const counted = await first<{ entries: number }>(db, countedEntries(userId, filter, page));
  return counted?.entries ?? 0;
}

function withReasonName(row: CodedRow): EntryRow {
  const { entry_id, account, asset, delta, reason, ref, balance_after, at } = row;
  return { entry_id, account, asset, delta, reason: readReason(reason), ref, balance_after, at };
}
