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
import { and, batch, type Expr, expr, raw, type Sql, sql } from "../platform/sql.ts";

/** Records that a page with filters examines. */
export const MAX_EXAMINED = 5_000;

export type BookFilter = {
  readonly venue?: Venue | undefined;
  readonly assetId?: string | undefined;
};

/** The span of records, in Unix milliseconds, both included. */
export type Period = { readonly from?: number | undefined; readonly to?: number | undefined };

/** Conditions on an asset's key. `column` must be trusted text. */
export function inBook(column: string, { venue, assetId }: BookFilter): Expr[] {
  if (venue === undefined) return [];
  if (assetId !== undefined) return [expr`${raw(column)} = ${`${venue}:${assetId}`}`];
  // Every key of a venue sorts between `venue:` and `venue;`, because `;` follows `:`.
  return [expr`${raw(column)} >= ${`${venue}:`} AND ${raw(column)} < ${`${venue};`}`];
}

export type ExaminedList<Row> = {
  /** The records after the cursor, in order. */
  readonly rows: (limit: number) => Sql;
  readonly order: Sql;
  /** Conditions on the output of `rows`. */
  readonly filters: readonly Expr[];
  readonly position: (row: Row) => TimeId;
};

/** Rows in order, and the last record that was examined, if others may follow it. */
export type ExaminedPart<Row> = {
  readonly rows: readonly Row[];
  readonly end: TimeId | null;
  readonly examined: number;
};

/** A page of the records that the database has. */
export async function examinedPage<Row, Item>(
  db: D1Database,
  page: PageQuery<TimeId>,
  list: ExaminedList<Row> & { readonly view: (row: Row) => Item },
) {
  if (page.limit === 0) return pageOf(page, [], list.view, list.position);
  return shownPage(page, list, examinedPart(await batch(db, examinedRows(page, list)), list));
}

/** The statements of a page, in one batch, so that all see the same records. */
export function examinedRows<Row>(
  page: PageQuery<TimeId>,
  { rows, order, filters }: ExaminedList<Row>,
): Sql[] {
  if (filters.length === 0) return [rows(fetchCount(page))];
  const examined = sql`SELECT * FROM (${rows(MAX_EXAMINED)})`;
  return [
    sql`${examined} WHERE ${and(filters)} ORDER BY ${order} LIMIT ${fetchCount(page)}`,
    // The row with the largest number, as SQLite defines bare columns beside max().
    sql`SELECT *, max(place) AS examined FROM (
      SELECT *, row_number() OVER (ORDER BY ${order}) AS place FROM (${rows(MAX_EXAMINED)}))`,
  ];
}

/** What the statements have read. */
export function examinedPart<Row>(
  [found, last = []]: readonly (readonly unknown[])[],
  { position }: ExaminedList<Row>,
): ExaminedPart<Row> {
  // Safe casts: the statements select these columns.
  const rows = found as readonly Row[];
  const [end] = last as readonly (Row & { readonly examined: number | null })[];
  const examined = end?.examined ?? 0;
  const isEarly = end !== undefined && examined === MAX_EXAMINED;
  return { rows, end: isEarly ? position(end) : null, examined };
}

export function shownPage<Row, Item>(
  page: PageQuery<TimeId>,
  { view, position }: ExaminedList<Row> & { readonly view: (row: Row) => Item },
  { rows, end, examined }: ExaminedPart<Row>,
) {
  const shown = pageOf(page, rows, view, position);
  const isEarly = shown.next_cursor === null && end !== null;
  return examining(isEarly ? { ...shown, next_cursor: encodeCursor(end) } : shown, examined);
}
