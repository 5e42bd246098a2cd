/**
 * Reads a user's ledger entries. A page merges the runs that its filter selects: entry-queries.ts
 * explains how, and why the length of the journal does not matter.
 *
 * A filter on amounts merges the newest entries, as for any page, and merges more as long as enough
 * of them fit. If few fit, it scans the user's entries, newest first. That reads entries that it
 * does not return, but only the user's own since the last seal. The archive answers for the rest.
 */
import type { AssetKey } from "../assets/asset.ts";
import { all, first, prepare } from "../platform/sql.ts";
import { type Reason, readReason } from "./codes.ts";
import { log } from "../platform/log.ts";
import { type ColdEntries, unreachable, UNREACHABLE } from "./cold-entries.ts";
import { type Archived, archivedEntries } from "./released.ts";
import {
  countedEntries,
  entriesOfRef,
  firstTransferSince,
  mergedEntries,
  scannedEntries,
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

export type EntryPage = {
  readonly rows: readonly EntryRow[];
  /** The page continues below this position; null if no more entries match. */
  readonly next: bigint | null;
};
type PageRequest = { readonly before: bigint; readonly limit: number };

/**
 * Returns up to `limit` of the user's entries below `before`, newest first. `cold` reads those that
 * are only in the archive. A page with fewer entries than `limit` may continue, if few of the
 * archive's entries match.
 */
export async function readEntries(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  { before, limit }: PageRequest,
  cold: ColdEntries = UNREACHABLE,
): Promise<EntryPage> {
  if (selectsNothing(filter)) return { rows: [], next: null };
  // One more than asked for shows whether more follow.
  const page = { before, limit: limit + 1 };
  const here = await readRows(db, userId, filter, page);
  const { rows, before: unsearched } = await withArchived(here, filter, page, cold);
  const ends = rows.length <= limit && unsearched === null;
  if (!isContinuous(rows, filter, ends)) {
    log("error", "history.cut", { user_id: userId });
    throw unreachable();
  }
  const shown = rows.slice(0, limit).map(withReasonName);
  const last = shown[limit - 1];
  const more = rows.length > limit || unsearched !== null;
  return { rows: shown, next: more && last !== undefined ? BigInt(last.entry_id) : unsearched };
}

/**
 * Whether each balance follows from the older entry of the same sub-account, and from nothing at
 * the end. If not, entries are missing in between. Filters that leave out single entries leave
 * nothing to compare.
 */
function isContinuous(rows: readonly CodedRow[], filter: LedgerFilter, ends: boolean): boolean {
  const { refId, reasons, direction, from } = filter;
  const leavesOut = [refId, reasons, direction].some((value) => value !== undefined);
  if (leavesOut || hasAmounts(filter)) return true;
  const befores = new Map<string, bigint>();
  for (const { account, asset, balance_after, delta } of rows) {
    const key = `${account} ${asset}`;
    const after = BigInt(balance_after);
    if ((befores.get(key) ?? after) !== after) return false;
    befores.set(key, after - BigInt(delta));
  }
  return !ends || from !== undefined || [...befores.values()].every((before) => before === 0n);
}

/** Rows of the database, and what the archive may have beside them. */
type Here = { readonly rows: CodedRow[]; readonly archive: Archived };

/** Rows, and where the archive has not been searched yet. */
type Merged = { readonly rows: readonly CodedRow[]; readonly before: bigint | null };

/** Adds the entries that are only in the archive to those of the database. */
async function withArchived(
  { rows, archive }: Here,
  filter: LedgerFilter,
  page: PageRequest,
  cold: ColdEntries,
): Promise<Merged> {
  if (rows.length >= page.limit || archive.archived !== 1) return { rows, before: null };
  const [newest] = rows;
  const last = rows.at(-1);
  if (filter.refId === undefined) {
    // The database was read above the archived part, and completely.
    const before = last === undefined ? page.before : BigInt(last.entry_id);
    const older = await read(cold, filter, { before, limit: page.limit - rows.length });
    return { ...older, rows: rows.concat(older.rows) };
  }
  // A record that has moved above the archived part is here as a whole. Of another one, the
  // transfers that are held may be here as well as in the archive.
  if (newest !== undefined && newest.entry_id >= 2 * (archive.delivered + 1))
    return { rows, before: null };
  const older = await read(cold, filter, page);
  const byId = new Map(rows.concat(older.rows).map((row) => [row.entry_id, row]));
  return {
    rows: [...byId.values()]
      // The next page has the others.
      .filter(({ entry_id }) => BigInt(entry_id) >= (older.before ?? 0n))
      .toSorted((a, b) => b.entry_id - a.entry_id)
      .slice(0, page.limit),
    before: older.before,
  };
}

/** Safe cast: the archive contains the keys of assets as the journal had them. */
async function read(cold: ColdEntries, filter: LedgerFilter, page: PageRequest): Promise<Merged> {
  return (await cold.read(filter, page)) as Merged;
}

async function readRows(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  page: PageRequest,
): Promise<Here> {
  const { refId, from } = filter;
  const archived = archivedEntries(userId, from);
  if (refId === undefined && hasAmounts(filter)) {
    const rows = await readByAmount(db, userId, filter, page);
    // Last, so that the archive is asked for everything that a statement above has left out.
    return { rows, archive: (await first<Archived>(db, archived)) ?? NOTHING_ARCHIVED };
  }
  const statement =
    refId === undefined
      ? mergedEntries(userId, filter, page)
      : entriesOfRef(userId, { ...filter, refId }, page);
  const [rows, archive] = await db.batch([prepare(db, statement), prepare(db, archived)]);
  // Safe casts: the columns of the two statements.
  return {
    rows: (rows?.results ?? []) as CodedRow[],
    archive: ((archive?.results ?? []) as Archived[])[0] ?? NOTHING_ARCHIVED,
  };
}

const NOTHING_ARCHIVED: Archived = { archived: 0, delivered: 0 };

async function readByAmount(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  page: PageRequest,
): Promise<CodedRow[]> {
  const { rows, rest } = await readNewest(db, userId, filter, page);
  return rest === undefined ? rows : rows.concat(await readByScan(db, userId, filter, rest));
}

/** Entries that are merged at once, at least. */
const MIN_MERGE = 256;
/** Merging continues if it expects to complete the page within this many first merges. */
const MAX_MERGE_GROWTH = 8;
/** How much more is merged than needed if entries fit as often as they did so far. */
const MERGE_MARGIN = 1.25;

/** Merges. `rest` is what the page still lacks, or undefined if it is complete. */
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

/**
 * Transfers of the journal that the first scans cover, and each later one. At 1 µs each, one scan
 * takes D1 at most some 0.1 s, even if one user owns every entry.
 */
const FIRST_SPANS: readonly bigint[] = [16_384n, 65_536n];
const LATER_SPAN = 131_072n;

async function readByScan(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  page: PageRequest,
): Promise<CodedRow[]> {
  const rows: CodedRow[] = [];
  const bottom = await oldestTransfer(db, filter);
  let { before } = page;
  for (let scan = 0; rows.length < page.limit && before > 2n * bottom; scan++) {
    const rest = { before, limit: page.limit - rows.length };
    const span = FIRST_SPANS[scan] ?? LATER_SPAN;
    const floor = before / 2n > span ? before / 2n - span : 0n;
    rows.push(...(await all<CodedRow>(db, scannedEntries(userId, filter, { ...rest, floor }))));
    before = 2n * floor;
  }
  return rows;
}

/** The first transfer that can be on a page of this database. */
async function oldestTransfer(db: D1Database, { from = 0 }: LedgerFilter): Promise<bigint> {
  const found = await first<{ first: number }>(db, firstTransferSince(from));
  return BigInt(found?.first ?? 1);
}

/**
 * Counts the entries below a position, up to `most`, for a filter without `refId`. Archived ones
 * are counted by blocks, so the result may be too high.
 */
export async function countEntries(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  page: { before: bigint; most: number },
  cold: ColdEntries = UNREACHABLE,
): Promise<number> {
  if (selectsNothing(filter)) return 0;
  const counted = await first<{ entries: number }>(db, countedEntries(userId, filter, page));
  const here = counted?.entries ?? 0;
  if (here >= page.most) return here;
  const found = await first<Archived>(db, archivedEntries(userId, filter.from));
  if (found?.archived !== 1) return here;
  return Math.min(page.most, here + (await cold.count(filter, page.before)));
}

function withReasonName(row: CodedRow): EntryRow {
  const { entry_id, account, asset, delta, reason, ref, balance_after, at } = row;
  return { entry_id, account, asset, delta, reason: readReason(reason), ref, balance_after, at };
}
