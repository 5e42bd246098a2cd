/**
 * The ledger as its owner reads it.
 *
 * A user's entries lie in *runs*, one per account, side and reason, each sorted in an index of its own. A page merges the
 * runs that the filter leaves, newest first. So a page costs one seek per run and one per item, however long the journal
 * is and whoever else is in it. A filter on amounts tries, in turn, what is cheap for what it finds:
 *
 * 1. the newest entries, as any page reads them, and more of them while they fit often enough;
 * 2. an index by amount, where each run falls into one run per amount: they are merged, unless they are too many;
 * 3. in growing steps, all that fits, sorted, and the newest runs, scanned, until one of the two ends. Only this reads
 *    entries that it does not show, and only the owner's own; it takes thousands of fitting entries of many amounts, which
 *    are rare among the newest.
 */
import type { AssetKey } from "../assets/asset.ts";
import { all, first, type Sql } from "../platform/sql.ts";
import { type Reason, readReason } from "./codes.ts";
import {
  countedEntries,
  entriesOfAmounts,
  entriesOfRef,
  firstSince,
  mergedEntries,
  scannedEntries,
  sortedEntries,
} from "./entry-queries.ts";
import { hasAmounts, type LedgerFilter, selectsNothing, type SubAccount } from "./filter.ts";

export { NEWEST } from "./entry-queries.ts";

/** Entries that are merged before a filter on amounts turns to its index. */
const FIRST_WALK = 256;
/** The walk goes on while it should find the rest within so many times its first length. */
const LONGEST_WALK = 8;
/** Runs of one amount that are merged, some 3 µs each. */
const MOST_AMOUNTS = 1_000;
type Attempt = { readonly sorted?: number; readonly span: bigint };
/** The third way's steps: fitting entries sorted, some 0.3 µs each, then transfers whose own entries are scanned, 1 µs each. */
const ATTEMPTS: readonly Attempt[] = [
  { sorted: 10_000, span: 16_384n },
  { sorted: 80_000, span: 65_536n },
  { sorted: 640_000, span: 131_072n },
];
/** When even so many fit: a span that holds D1 for no more than some 0.2 s, though all of it were one user's. */
const LAST_ATTEMPT: Attempt = { span: 131_072n };

export type EntryRow = {
  readonly entry_id: number;
  readonly account: SubAccount;
  readonly asset: AssetKey;
  /** Signed decimal native units. */
  readonly delta: string;
  readonly reason: Reason;
  /** A UUID as `hex()` spells it, or a deposit's `0x` transaction hash. */
  readonly ref: string;
  readonly balance_after: string;
  readonly at: number;
};

export type EntryPage = { readonly rows: readonly EntryRow[]; readonly more: boolean };
type Wanted = { readonly before: bigint; readonly limit: number };
/** A row as the database spells it. */
type CodedRow = Omit<EntryRow, "reason"> & { readonly reason: number };

/** Up to `limit` of the user's entries below `before`, newest first, and whether any follow. */
export async function readEntries(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  page: Wanted,
): Promise<EntryPage> {
  if (selectsNothing(filter)) return { rows: [], more: false };
  const wanted = { before: page.before, limit: page.limit + 1 };
  const rows = await readWanted(db, userId, filter, wanted);
  return { rows: rows.slice(0, page.limit).map(withReasonName), more: rows.length > page.limit };
}

function readWanted(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  wanted: Wanted,
): Promise<CodedRow[]> {
  if (filter.refId !== undefined) return all(db, entriesOfRef(userId, filter, wanted));
  if (hasAmounts(filter)) return readByAmount(db, userId, filter, wanted);
  return all(db, mergedEntries(userId, filter, { before: wanted.before, walk: wanted.limit }));
}

async function readByAmount(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  wanted: Wanted,
): Promise<CodedRow[]> {
  const rows: CodedRow[] = [];
  const firstWalk = Math.max(FIRST_WALK, wanted.limit);
  let { before } = wanted;
  for (let walk = firstWalk; walk <= LONGEST_WALK * firstWalk;) {
    const newest = await all<CodedRow & { fits: number; walked: number }>(
      db,
      mergedEntries(userId, filter, { before, walk }),
    );
    const fitting = newest.filter((row) => row.fits === 1);
    rows.push(...fitting);
    const last = newest.at(-1);
    if (last === undefined || last.walked < walk || rows.length >= wanted.limit) return rows;
    before = BigInt(last.entry_id);
    // A quarter more than holds what is missing, should the next ones fit as often; endless when none did.
    walk = Math.ceil((1.25 * (wanted.limit - rows.length) * walk) / fitting.length);
  }
  const rest = { before, limit: wanted.limit - rows.length };
  return rows.concat(
    (await readIfSmall(
      db,
      entriesOfAmounts(userId, filter, { ...rest, most: MOST_AMOUNTS }),
      MOST_AMOUNTS,
    )) ?? (await readInSteps(db, userId, filter, rest)),
  );
}

/** The rows of a query that says how much it found, unless that is more than it may take. */
async function readIfSmall(
  db: D1Database,
  query: Sql,
  most: number,
): Promise<CodedRow[] | undefined> {
  const rows = await all<{ readonly size: number } & (CodedRow | { readonly entry_id: null })>(
    db,
    query,
  );
  if ((rows[0]?.size ?? 0) > most) return undefined;
  return rows.filter((row) => row.entry_id !== null);
}

async function readInSteps(
  db: D1Database,
  userId: string,
  filter: LedgerFilter,
  wanted: Wanted,
): Promise<CodedRow[]> {
  const rows: CodedRow[] = [];
  const bottom =
    filter.from === undefined
      ? 1n
      : BigInt((await first<{ first: number }>(db, firstSince(filter.from)))?.first ?? 1);
  let before = wanted.before;
  for (let attempt = 0; rows.length < wanted.limit && before > 2n * bottom; attempt++) {
    const { sorted, span } = ATTEMPTS[attempt] ?? LAST_ATTEMPT;
    const rest = { before, limit: wanted.limit - rows.length };
    if (sorted !== undefined) {
      const fitting = await readIfSmall(
        db,
        sortedEntries(userId, filter, { ...rest, most: sorted }),
        sorted,
      );
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

function withReasonName({
  entry_id,
  account,
  asset,
  delta,
  reason,
  ref,
  balance_after,
  at,
}: CodedRow): EntryRow {
  return { entry_id, account, asset, delta, reason: readReason(reason), ref, balance_after, at };
}
