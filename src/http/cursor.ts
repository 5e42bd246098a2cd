/**
 * Keyset pagination (contract.md section 1, "page"). A cursor is the sort position of the last item
 * of a page. A list reads `fetchCount(page)` rows after it, and `pageOf` removes the extra row.
 */
import * as z from "zod";
import { type Column, type SQL, sql as fragmentOf } from "drizzle-orm";
import { described, integer, textField } from "./fields.ts";
import { raw, type Sql, sql, uuid } from "../platform/sql.ts";

export const DEFAULT_PAGE = 50;
export const MAX_PAGE = 500;
const UINT32_MAX = 2 ** 32 - 1;
const MAX_CURSOR_LENGTH = 512;

/** Rows sorted by an instant and, within it, by id. */
export type TimeId = { readonly at: number; readonly id: string };

export type PageQuery<Position> = {
  readonly limit: number;
  readonly last_cursor?: { readonly text: string; readonly position: Position } | undefined;
};
export type Page<Item> = { items: Item[]; next_cursor: string | null };

export const LIMIT_DOCUMENTED = {
  type: "integer",
  format: "uint32",
  minimum: 0,
  maximum: UINT32_MAX,
  description: `Maximum number of items. A value above ${MAX_PAGE} is treated as ${MAX_PAGE}.`,
} as const;

export const limitField = integer(0, UINT32_MAX)
  .transform((limit) => Math.min(limit, MAX_PAGE))
  .default(DEFAULT_PAGE)
  .meta({ ...LIMIT_DOCUMENTED, default: DEFAULT_PAGE });

/** Cursors that name their list on the wire, so that no other list takes them for its own. */
const NAMED = new WeakSet<object>();

/** Spread into a query schema: `z.strictObject({ venue_id: venue.optional(), ...timeIdPage })`. */
export const timeIdPage = pageFields(
  z.tuple([z.int().min(0), z.uuid()]).transform(([at, id]): TimeId => ({ at, id })),
);

/** As `timeIdPage` for other positions, e.g. `z.tuple([z.int(), z.int(), z.uuid()])`. */
export function pageFields<Position>(position: z.ZodType<Position, unknown[]>) {
  const last_cursor = textField(
    (text) => {
      const parts = position.safeParse(
        text.length <= MAX_CURSOR_LENGTH ? decodeCursor(text) : undefined,
      );
      return parts.success ? { text, position: parts.data } : undefined;
    },
    "must be a next_cursor of this list",
    {
      type: "string",
      pattern: "^[A-Za-z0-9_-]+$",
      maxLength: MAX_CURSOR_LENGTH,
      description: "The `next_cursor` of the previous page",
    },
  );
  const field = last_cursor.optional();
  NAMED.add(field);
  return { limit: limitField, last_cursor: field };
}

/** Whether the cursors of a query name their list. Those of the ledger are entry ids. */
export function hasNamedCursor(query: z.ZodType | undefined): boolean {
  if (!(query instanceof z.ZodObject)) return false;
  const field: unknown = query.shape["last_cursor"];
  return typeof field === "object" && field !== null && NAMED.has(field);
}

export function nameCursor(list: string, cursor: string): string {
  return `${list}-${cursor}`;
}

/** The cursor without the name of its list. Empty, which no list accepts, if it names another. */
export function unnameCursor(list: string, cursor: string): string {
  return cursor.startsWith(`${list}-`) ? cursor.slice(list.length + 1) : "";
}

/** Of pages for which more records were examined than they show. */
const examinedFor = new WeakMap<object, number>();

/** Says how many records were examined for a page. The limit of its caller is charged for them. */
export function examining<Shown extends object>(page: Shown, records: number): Shown {
  examinedFor.set(page, records);
  return page;
}

/** The records that were examined for a response. */
export function recordsExamined(response: object): number {
  const items = "items" in response && Array.isArray(response.items) ? response.items.length : 0;
  return Math.max(items, examinedFor.get(response) ?? 0);
}

export function fetchCount(page: { readonly limit: number }): number {
  return page.limit + 1;
}

/** Rows after the cursor, for `ORDER BY <at> DESC, <id> DESC`. Column names are trusted text. */
export function olderThan(page: PageQuery<TimeId>, columns: { at: string; id: string }): Sql {
  const after = page.last_cursor?.position;
  if (after === undefined) return sql`1`;
  return sql`(${raw(columns.at)}, ${raw(columns.id)}) < (${after.at}, ${uuid(after.id)})`;
}

/** As `olderThan`, for a plain read. Undefined on the first page. */
export function afterCursor(
  page: PageQuery<TimeId>,
  columns: { readonly at: Column; readonly id: Column },
): SQL | undefined {
  const after = page.last_cursor?.position;
  if (after === undefined) return undefined;
  const id = fragmentOf.param(after.id, columns.id);
  return fragmentOf`(${columns.at}, ${columns.id}) < (${after.at}, ${id})`;
}

/** `rows` contains at most `fetchCount(page)` rows. The extra row only shows that more exist. */
export function pageOf<Row, Item>(
  page: { readonly limit: number; readonly last_cursor?: { readonly text: string } | undefined },
  rows: readonly Row[],
  toItem: (row: Row) => Item,
  position: (row: Row) => TimeId | Parts,
): Page<Item> {
  if (page.limit === 0) return { items: [], next_cursor: page.last_cursor?.text ?? null };
  const shown = rows.slice(0, page.limit);
  const last = shown.at(-1);
  const more = rows.length > page.limit && last !== undefined;
  return { items: shown.map(toItem), next_cursor: more ? encodeCursor(position(last)) : null };
}

type Parts = readonly (string | number)[];

export function encodeCursor(position: TimeId | Parts): string {
  const parts = isParts(position) ? position : [position.at, position.id];
  return Buffer.from(JSON.stringify(parts)).toString("base64url");
}

function decodeCursor(text: string): unknown {
  if (!/^[A-Za-z0-9_-]+$/.test(text)) return undefined;
  try {
    return JSON.parse(Buffer.from(text, "base64url").toString("utf8"));
  } catch {
    return undefined;
  }
}

/** Schema of a page. */
export function pageSchema<Item extends z.ZodType>(item: Item) {
  return z.object({
    items: described(z.array(item), "The records of this page"),
    next_cursor: described(
      z.string().nullable(),
      "Pass it as `last_cursor` to get the next page. Null if nothing further matches.",
    ),
  });
}

function isParts(position: TimeId | Parts): position is Parts {
  return Array.isArray(position);
}
