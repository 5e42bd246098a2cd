/**
 * Pages of a list that its index orders but does not filter.
 *
 * A filter that leaves most records out would make a page read the caller's whole history. So such
 * a page examines a bounded number of records. If it reaches that number it ends early, and its
 * cursor is the last record that it examined.
 */
import type { Venue } from "../platform/venues.ts";
import {
  encodeCursor,
  examining,
  fetchCount,
  type PageQuery,
  pageOf,
  type TimeId,
} from "../http/cursor.ts";
import { bareId } from "../archive/ask-history.ts";
import { coldPage, type Left, leftOf, type RecordArchive } from "../archive/cold-records.ts";
import { isOlder, type RecordFilter, type SealedRecord } from "../archive/record-page.ts";
import { and, batch, type Expr, expr, raw, readUuid, type Sql, sql } from "../platform/sql.ts";

/** Records that a page with filters examines. */
export const MAX_EXAMINED = 5_000;

export type BookFilter = {
  readonly venue?: Venue | undefined;
  readonly assetId?: string | undefined;
};

/** Of records: from when to when, in Unix milliseconds, both included. */
export type Period = { readonly from?: number | undefined; readonly to?: number | undefined };

/** Conditions on an asset's key. `column` must be trusted text. */
export function inBook(column: string, { venue, assetId }: BookFilter): Expr[] {
  if (venue === undefined) return [];
  if (assetId !== undefined) return [expr`${raw(column)} = ${`${venue}:${assetId}`}`];
  // Every key of a venue sorts between `venue:` and `venue;`, because `;` follows `:`.
  return [expr`${raw(column)} >= ${`${venue}:`} AND ${raw(column)} < ${`${venue};`}`];
}

type ExaminedList<Row, Item> = {
  /** The records after the cursor, in order. */
  readonly rows: (limit: number) => Sql;
  readonly order: Sql;
  /** Conditions on the output of `rows`. */
  readonly filters: readonly Expr[];
  readonly view: (row: Row) => Item;
  readonly position: (row: Row) => TimeId;
  /** The same list in the archive. Absent if only open records fit. */
  readonly cold?: ColdList<Row>;
};

type ColdList<Row> = {
  readonly filter: RecordFilter;
  readonly row: (record: SealedRecord) => Row;
};

/** Rows in order. All that fit are listed down to `completeTo`; null: to the last one. */
type Part<Row> = { readonly rows: readonly Row[]; readonly completeTo: TimeId | null };

/** What a page of the archive costs its caller, as it opens blocks of so many. */
const ARCHIVED_RECORDS = 500;

/** A page of own records, of the database and the archive. One that is leaving may be in both. */
export async function examinedPage<Row, Item>(
  archive: RecordArchive,
  userId: string,
  page: PageQuery<TimeId>,
  list: ExaminedList<Row, Item>,
) {
  const { view, position, cold } = list;
  if (page.limit === 0) return pageOf(page, [], view, position);
  const { left, ...here } = await readHere(archive.db, userId, page, list);
  const newest = left?.[cold?.filter.kind ?? "requests"] ?? null;
  const isNewer = here.completeTo !== null && here.completeTo.at > (newest ?? 0);
  if (cold === undefined || left === undefined || newest === null || isNewer)
    return examining(pageTo(page, list, here), here.examined);
  if (newest < (cold.filter.from ?? 0)) return examining(pageTo(page, list, here), here.examined);
  const there = await readCold(archive, { userId, left }, page, cold);
  const found = pageTo(page, list, merge(here, there, position));
  return examining(found, here.examined + ARCHIVED_RECORDS);
}

/** One batch, so that all see the same records. */
async function readHere<Row, Item>(
  db: D1Database,
  userId: string,
  page: PageQuery<TimeId>,
  { rows, order, filters, position, cold }: ExaminedList<Row, Item>,
): Promise<Part<Row> & { readonly left: Left | undefined; readonly examined: number }> {
  const examined = sql`SELECT * FROM (${rows(MAX_EXAMINED)})`;
  const [left, last, matching] = await batch(db, [
    cold === undefined ? NO_ROW : leftOf(userId),
    filters.length === 0
      ? NO_ROW
      : // The row with the largest number, as SQLite defines bare columns beside max().
        sql`SELECT *, max(place) AS examined FROM (
          SELECT *, row_number() OVER (ORDER BY ${order}) AS place FROM (${rows(MAX_EXAMINED)}))`,
    filters.length === 0
      ? rows(fetchCount(page))
      : sql`${examined} WHERE ${and(filters)} ORDER BY ${order} LIMIT ${fetchCount(page)}`,
  ]);
  // Safe casts: the statements select these columns.
  const found = matching as Row[];
  const [end] = last as (Row & { readonly examined: number | null })[];
  const extra = found[page.limit];
  const until = extra ?? (end?.examined === MAX_EXAMINED ? end : undefined);
  return {
    rows: found,
    completeTo: until === undefined ? null : position(until),
    left: (left as Left[])[0],
    examined: end?.examined ?? 0,
  };
}

const NO_ROW = sql`SELECT 1 WHERE 0`;

async function readCold<Row>(
  archive: RecordArchive,
  { userId, left }: { readonly userId: string; readonly left: Left },
  page: PageQuery<TimeId>,
  { filter, row }: ColdList<Row>,
): Promise<Part<Row>> {
  const after = page.last_cursor?.position;
  const { epoch, number } = left;
  const { records, completeTo } = await coldPage(archive, userId, {
    newest: { epoch, number },
    filter,
    after: after === undefined ? null : { at: after.at, id: bareId(after.id) },
    limit: fetchCount(page),
  });
  return {
    rows: records.map(row),
    completeTo: completeTo === null ? null : { at: completeTo.at, id: readUuid(completeTo.id) },
  };
}

function merge<Row>(here: Part<Row>, there: Part<Row>, position: (row: Row) => TimeId): Part<Row> {
  const byId = new Map([...there.rows, ...here.rows].map((row) => [position(row).id, row]));
  const [a, b] = [here.completeTo, there.completeTo];
  return {
    rows: [...byId.values()].toSorted((one, other) =>
      isOlder(position(one), position(other)) ? 1 : -1,
    ),
    completeTo: a === null || b === null ? (a ?? b) : isOlder(a, b) ? b : a,
  };
}

/** The page ends early where the list is not known to be complete. */
function pageTo<Row, Item>(
  page: PageQuery<TimeId>,
  { view, position }: ExaminedList<Row, Item>,
  { rows, completeTo }: Part<Row>,
) {
  const complete =
    completeTo === null ? rows : rows.filter((row) => !isOlder(position(row), completeTo));
  const found = pageOf(page, complete, view, position);
  if (found.next_cursor !== null || completeTo === null) return found;
  return { ...found, next_cursor: encodeCursor(completeTo) };
}
