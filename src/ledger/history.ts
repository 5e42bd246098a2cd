/**
 * Reads a user's ledger entries. A page merges the runs that its filter selects (entry-queries.ts).
 * With a filter on amounts it may be short, because it examines a limited number of entries. The
 * same queries read the entries before the last seal in the user's history.
 */
import type { AssetKey } from "../assets/asset.ts";
import { batch, type Sql } from "../platform/sql.ts";
import { type Reason, readReason } from "./codes.ts";
import { log } from "../platform/log.ts";
import { type OldRows, unreachable, UNREACHABLE } from "./old-rows.ts";
import { type Archived, archivedRows } from "./released.ts";
import { ALL, countedEntries, entriesOfRef, HOT, mergedEntries } from "./entry-queries.ts";
import { hasAmounts, type LedgerFilter, selectsNothing, type SubAccount } from "./filter.ts";

export { NEWEST } from "./entry-queries.ts";

/** An entry with the code of its reason, as the journal has it. */
type CodedRow = {
  readonly entry_id: number;
  readonly account: SubAccount;
  readonly asset: AssetKey;
  /** Signed decimal native units. */
  readonly delta: string;
  readonly reason: number;
  /** A UUID in the form of `hex()`, or a deposit's `0x` transaction hash. */
  readonly ref: string;
  readonly balance_after: string;
  readonly at: number;
};
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
  old: OldRows = UNREACHABLE,
): Promise<EntryPage> {
  if (selectsNothing(filter)) return { rows: [], next: null, examined: 0 };
  // One more than asked for shows whether more follow.
  const page = { before, limit: limit + 1 };
  const { rows, unsearched, examined } = await readParts(db, userId, filter, page, old);
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

type Part = {
  readonly rows: readonly CodedRow[];
  /** Below this position nothing has been searched. Null: the search has reached the end. */
  readonly unsearched: bigint | null;
  readonly examined: number;
};

/** Entries of the database, then those of the history, which are all older. */
async function readParts(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  page: PageRequest,
  old: OldRows,
): Promise<Part> {
  const [found, [archived]] = (await batch(db, [
    pageOf(userId, filter, page, "hot"),
    archivedRows(userId, "entries", filter.from),
    // Safe cast: the columns of the two statements.
  ])) as [ExaminedRow[], Archived[]];
  const here = partOf(found, examinedFor(page, "hot"));
  if (archived === undefined || here.unsearched !== null) return here;
  const isOfRef = filter.refId !== undefined;
  const [newest] = here.rows;
  // A record that has moved above the seal is here as a whole. Of another one, only transfers that
  // are held may be here.
  if (isOfRef && newest !== undefined && BigInt(newest.entry_id) >= aboveSeal(archived))
    return here;
  const rows = isOfRef ? [] : here.rows;
  if (rows.length >= page.limit) return here;
  const rest = { before: least(page.before, aboveSeal(archived)), limit: page.limit - rows.length };
  const [older] = await old(archived, [pageOf(userId, filter, rest, "old")]);
  // Safe cast: the same columns.
  const there = partOf(older as ExaminedRow[], examinedFor(rest, "old"));
  return { ...there, rows: [...rows, ...there.rows], examined: here.examined + there.examined };
}

/** A history may have seals already that are not delivered. */
const aboveSeal = ({ upTo }: Archived) => 2n * BigInt(upTo + 1);
const least = (a: bigint, b: bigint) => (a < b ? a : b);

type Place = "hot" | "old";

/**
 * Entries that a page with a filter on amounts examines at least. D1 takes a few milliseconds. A
 * history has far more of them, and serves its owner only.
 */
const EXAMINED_ENTRIES = { hot: 1_000, old: 10_000 };
const examinedFor = ({ limit }: PageRequest, place: Place) =>
  Math.max(EXAMINED_ENTRIES[place], limit);

function pageOf(userId: string, filter: LedgerFilter, page: PageRequest, place: Place): Sql {
  const { refId } = filter;
  if (refId !== undefined) return entriesOfRef(userId, { ...filter, refId }, page);
  const after = place === "hot" ? HOT : ALL;
  return mergedEntries(userId, filter, { ...page, after, examined: examinedFor(page, place) });
}

/** A row, and with a filter on amounts whether it fits and how many entries were examined. */
type ExaminedRow = CodedRow & { readonly fits?: number; readonly merged_count?: number };

function partOf(found: readonly ExaminedRow[], examined: number): Part {
  const last = found.at(-1);
  return {
    rows: found.filter(({ fits = 1 }) => fits === 1),
    unsearched: last?.merged_count === examined ? BigInt(last.entry_id) : null,
    examined: last?.merged_count ?? found.length,
  };
}

/** Counts up to `most`, for a filter without `refId`. */
export async function countEntries(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  { before, most }: { before: bigint; most: number },
  old: OldRows = UNREACHABLE,
): Promise<number> {
  if (selectsNothing(filter)) return 0;
  const [[counted], [archived]] = (await batch(db, [
    countedEntries(userId, filter, { before, most, after: HOT }),
    archivedRows(userId, "entries", filter.from),
    // Safe cast: the columns of the two statements.
  ])) as [{ entries: number }[], Archived[]];
  const here = counted?.entries ?? 0;
  if (here >= most || archived === undefined) return here;
  const rest = { before: least(before, aboveSeal(archived)), most: most - here, after: ALL };
  const [[older] = []] = (await old(archived, [countedEntries(userId, filter, rest)])) as {
    entries: number;
  }[][];
  return here + (older?.entries ?? 0);
}

function withReasonName(row: CodedRow): EntryRow {
  const { entry_id, account, asset, delta, reason, ref, balance_after, at } = row;
  return { entry_id, account, asset, delta, reason: readReason(reason), ref, balance_after, at };
}
