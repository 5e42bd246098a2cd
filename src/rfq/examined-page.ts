/**
 * Pages of a list that its index orders but does not filter.
 *
 * A filter that leaves most records out would make a page read the caller's whole history. So such a
 * page examines a bounded number of records. If it reaches that number it ends early, and its
 * cursor is the last record that it examined.
 */
import type { Venue } from "../platform/venues.ts";
import {
  encodeCursor,
  fetchCount,
  type Page,
  type PageQuery,
  pageOf,
  type TimeId,
} from "../http/cursor.ts";
import { all, and, type Expr, expr, prepare, raw, type Sql, sql } from "../platform/sql.ts";

/** Records that a page with filters examines. */
export const MAX_EXAMINED = 5_000;

export type BookFilter = {
  readonly venue?: Venue | undefined;
  readonly assetId?: string | undefined;
};

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
};

export async function examinedPage<Row, Item>(
  db: D1Database,
  page: PageQuery<TimeId>,
  { rows, order, filters, view, position }: ExaminedList<Row, Item>,
): Promise<Page<Item>> {
  if (filters.length === 0)
    return pageOf(page, await all<Row>(db, rows(fetchCount(page))), view, position);
  const examined = sql`SELECT * FROM (${rows(MAX_EXAMINED)})`;
  // One batch, so that both see the same records.
  const [matching, last] = await db.batch<Row>(
    [
      sql`${examined} WHERE ${and(filters)} ORDER BY ${order} LIMIT ${fetchCount(page)}`,
      sql`${examined} ORDER BY ${order} LIMIT 1 OFFSET ${MAX_EXAMINED - 1}`,
    ].map((statement) => prepare(db, statement)),
  );
  const found = pageOf(page, matching?.results ?? [], view, position);
  const end = last?.results[0];
  if (page.limit === 0 || found.next_cursor !== null || end === undefined) return found;
  return { ...found, next_cursor: encodeCursor(position(end)) };
}
