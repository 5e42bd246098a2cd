/**
 * Reads a user's ledger entries. A page merges the runs that its filter selects (entry-queries.ts).
 * With a filter on amounts it may be short, because it examines a limited number of entries. The
 * archive answers for the entries before the last seal.
 */
import { batch, first } from "../platform/sql.ts";
import { type Reason, readReason } from "./codes.ts";
import { log } from "../platform/log.ts";
import {
  type CodedRow,
  type ColdEntries,
  type ColdRows,
  unreachable,
  UNREACHABLE,
} from "./cold-entries.ts";
import { type Archived, archivedEntries } from "./released.ts";
import { countedEntries, entriesOfRef, mergedEntries } from "./entry-queries.ts";
import { hasAmounts, type LedgerFilter, selectsNothing } from "./filter.ts";

export { NEWEST } from "./entry-queries.ts";

export type EntryRow = Omit<CodedRow, "reason"> & { readonly reason: Reason };

export type EntryPage = {
  readonly rows: readonly EntryRow[];
  /** The page continues below this position; null if no more entries match. */
  readonly next: bigint | null;
  /** Entries that were read for it. */
  readonly examined: number;
};
type PageRequest = { readonly before: bigint; readonly limit: number };

/** Returns up to `limit` entries below `before`, newest first. A page with fewer may continue. */
export async function readEntries(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  { before, limit }: PageRequest,
  cold: ColdEntries = UNREACHABLE,
): Promise<EntryPage> {
  if (selectsNothing(filter)) return { rows: [], next: null, examined: 0 };
  // One more than asked for shows whether more follow.
  const page = { before, limit: limit + 1 };
  const here = await readRows(db, userId, filter, page);
  const { rows, before: unsearched, examined } = await withArchived(here, filter, page, cold);
  const ends = rows.length <= limit && unsearched === null;
  if (!isContinuous(rows, filter, ends)) {
    log("error", "history.cut", { user_id: userId });
    throw unreachable();
  }
  const shown = rows.slice(0, limit).map(withReasonName);
  const last = shown[limit - 1];
  const more = rows.length > limit || unsearched !== null;
  const next = more && last !== undefined ? BigInt(last.entry_id) : unsearched;
  return { rows: shown, next, examined };
}

/**
 * Whether each balance follows from the older entry of the same sub-account, and the first from
 * nothing. If not, entries are missing. Filters that omit single entries leave nothing to compare.
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
type Here = Searched & { readonly archive: Archived };
type Searched = ColdRows & { readonly examined: number };

/** What a page of the archive costs its caller, as it opens blocks of so many. */
const ARCHIVED_ENTRIES = 500;

/** Adds the entries that are only in the archive to those of the database. */
async function withArchived(
  { rows, before: unsearched, archive, examined: examinedHere }: Here,
  filter: LedgerFilter,
  page: PageRequest,
  cold: ColdEntries,
): Promise<Searched> {
  if (rows.length >= page.limit || unsearched !== null || archive.archived !== 1)
    return { rows, before: unsearched, examined: examinedHere };
  const examined = examinedHere + ARCHIVED_ENTRIES;
  const [newest] = rows;
  const last = rows.at(-1);
  if (filter.refId === undefined) {
    // The database was read above the archived part, and completely.
    const before = last === undefined ? page.before : BigInt(last.entry_id);
    const older = await cold.read(filter, { before, limit: page.limit - rows.length });
    return { ...older, rows: rows.concat(older.rows), examined };
  }
  // A record that has moved above the archived part is here as a whole. Of another one, the
  // transfers that are held may be here as well as in the archive.
  if (newest !== undefined && newest.entry_id >= 2 * (archive.delivered + 1))
    return { rows, before: null, examined: examinedHere };
  const older = await cold.read(filter, page);
  const byId = new Map(rows.concat(older.rows).map((row) => [row.entry_id, row]));
  return {
    rows: [...byId.values()]
      // The next page has the others.
      .filter(({ entry_id }) => BigInt(entry_id) >= (older.before ?? 0n))
      .toSorted((a, b) => b.entry_id - a.entry_id)
      .slice(0, page.limit),
    before: older.before,
    examined,
  };
}

/** Entries that a page with a filter on amounts examines at least. D1 takes a few milliseconds. */
const EXAMINED_ENTRIES = 1_000;

async function readRows(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  page: PageRequest,
): Promise<Here> {
  const { refId, from } = filter;
  const examined = Math.max(EXAMINED_ENTRIES, page.limit);
  const statement =
    refId === undefined
      ? mergedEntries(userId, filter, { ...page, examined })
      : entriesOfRef(userId, { ...filter, refId }, page);
  const [found, archived] = await batch(db, [statement, archivedEntries(userId, from)]);
  // Safe casts: the columns of the two statements.
  const rows = found as ExaminedRow[];
  const archive = (archived as Archived[])[0] ?? { archived: 0, delivered: 0 };
  const last = rows.at(-1);
  return {
    rows: rows.filter(({ fits = 1 }) => fits === 1),
    before: last?.merged_count === examined ? BigInt(last.entry_id) : null,
    examined: last?.merged_count ?? rows.length,
    archive,
  };
}

/** A row, and with a filter on amounts whether it fits and how many entries were examined. */
type ExaminedRow = CodedRow & { readonly fits?: number; readonly merged_count?: number };

/** Counts up to `most`, for a filter without `refId`. Archived blocks may count too many. */
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
