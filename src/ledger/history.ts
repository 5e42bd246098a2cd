/**
 * The ledger as its owner reads it.
 *
 * A user's entries lie in *runs*, one per account, side and reason, each sorted in an index of its own. A page merges the
 * runs that the filter leaves, newest first. So a page costs one seek per run and one per item, however long the journal
 * is and whoever else is in it. A filter on amounts tries, in turn, what is cheap for what it finds:
 *
 * 1. the newest entries, as any page reads them: enough for what fits often;
 * 2. an index by amount, where each run falls into one run per amount: they are merged, unless they are too many;
 * 3. in growing steps, all that fits, sorted, and the newest runs, scanned, until one of the two ends. Only this reads
 *    entries that it does not show, and only the owner's own; it takes thousands of fitting entries of many amounts, of
 *    which hardly one is among the newest.
 */
import { all, first, type Sql } from "../platform/sql.ts";
import { readReason } from "./codes.ts";
import {
  countedEntries,
  entriesOfAmounts,
  entriesOfRef,
  firstSince,
  mergedEntries,
  scannedEntries,
  sortedEntries,
} from "./entry-queries.ts";
import { type EntryRow, hasAmounts, type LedgerFilter, selectsNothing } from "./filter.ts";

export { NEWEST } from "./entry-queries.ts";

/** Entries that are merged before a filter on amounts turns to its index. */
const FIRST_WALK = 256;
/** Runs of one amount that are merged, some 3 µs each. */
const MOST_AMOUNTS = 1_000;
/** The third way's steps: fitting entries sorted, some 0.3 µs each, then transfers whose own entries are scanned, 1 µs each. */
const STEPS = [
  { sorted: 10_000, span: 16_384n },
  { sorted: 80_000, span: 65_536n },
  { sorted: 640_000, span: 262_144n },
];
/** When even so many fit: the largest span that holds D1 for no more than some 0.2 s, though all of it were one user's. */
const LAST_STEP = { sorted: 0, span: 262_144n };

export type EntryPage = { readonly rows: readonly EntryRow[]; readonly more: boolean };
type Wanted = { readonly before: bigint; readonly limit: number };
/** A row as the database spells it. */
type CodedRow = Omit<EntryRow, "reason"> & { readonly reason: number };

/** Up to `limit` of the user's entries below `before`, newest first, and whether any follow. */
export async function readEntries(db: D1Database, userId: string, filter: LedgerFilter, page: Wanted): Promise<EntryPage> {
  if (selectsNothing(filter)) return { rows: [], more: false };
  const wanted = { before: page.before, limit: page.limit + 1 };
  const rows = await readWanted(db, userId, filter, wanted);
  return { rows: rows.slice(0, page.limit).map(named), more: rows.length > page.limit };
}

function readWanted(db: D1Database, userId: string, filter: LedgerFilter, wanted: Wanted): Promise<CodedRow[]> {
  if (filter.refId !== undefined) return all(db, entriesOfRef(userId, filter, wanted));
  if (hasAmounts(filter)) return readByAmount(db, userId, filter, wanted);
  return all(db, mergedEntries(userId, filter, { before: wanted.before, walk: wanted.limit }));
}

async function readByAmount(db: D1Database, userId: string, filter: LedgerFilter, wanted: Wanted): Promise<CodedRow[]> {
  const walk = Math.max(FIRST_WALK, wanted.limit);
  const newest = await all<CodedRow & { fits: number; walked: number }>(db, mergedEntries(userId, filter, { before: wanted.before, walk }));
  const rows: CodedRow[] = newest.filter((row) => row.fits === 1);
  const last = newest.at(-1);
  if (last === undefined || last.walked < walk || rows.length >= wanted.limit) return rows;
  const rest = { before: BigInt(last.entry_id), limit: wanted.limit - rows.length };
  return rows.concat(
    (await readIfSmall(db, entriesOfAmounts(userId, filter, { ...rest, most: MOST_AMOUNTS }), "amounts", MOST_AMOUNTS)) ??
      (await readInSteps(db, userId, filter, rest)),
  );
}

/** The rows of a query that says how much it found, unless that is more than it may take. */
async function readIfSmall(db: D1Database, query: Sql, size: "amounts" | "entries", most: number): Promise<CodedRow[] | undefined> {
  const rows = await all<{ [name in typeof size]?: number } & (CodedRow | { readonly entry_id: null })>(db, query);
  if ((rows[0]?.[size] ?? 0) > most) return undefined;
  return rows.filter((row) => row.entry_id !== null);
}

async function readInSteps(db: D1Database, userId: string, filter: LedgerFilter, wanted: Wanted): Promise<CodedRow[]> {
  const rows: CodedRow[] = [];
  const bottom = filter.from === undefined ? 1n : BigInt((await first<{ first: number }>(db, firstSince(filter.from)))?.first ?? 1);
  let before = wanted.before;
  for (let step = 0; rows.length < wanted.limit && before > 2n * bottom; step++) {
    const { sorted, span } = STEPS[step] ?? LAST_STEP;
    const rest = { before, limit: wanted.limit - rows.length };
    if (sorted > 0) {
      const fitting = await readIfSmall(db, sortedEntries(userId, filter, { ...rest, most: sorted }), "entries", sorted);
      if (fitting !== undefined) return rows.concat(fitting);
    }
    const floor = before / 2n > span ? before / 2n - span : 0n;
    rows.push(...(await all<CodedRow>(db, scannedEntries(userId, filter, { ...rest, floor }))));
    before = 2n * floor;
  }
  return rows;
}

/** How many entries a filter without `refId` has below a position, counted up to `most`. */
export async function countEntries(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  page: { before: bigint; most: number },
): Promise<number> {
  if (selectsNothing(filter)) return 0;
  return (await first<{ entries: number }>(db, countedEntries(userId, filter, page)))?.entries ?? 0;
}

function named({ entry_id, account, asset, delta, reason, ref, balance_after, at }: CodedRow): EntryRow {
  return { entry_id, account, asset, delta, reason: readReason(reason), ref, balance_after, at };
}
