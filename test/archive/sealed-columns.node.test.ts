import { getTableColumns } from "drizzle-orm";
import { expect, it } from "vitest";
import { MATCHES, QUOTES, REQUESTS } from "../../src/archive/sealed-columns.ts";
import { matches, quotes, requests } from "../../src/rfq/tables.ts";

/**
 * The first bounds the open quotes of a maker, so an ended quote's is never read. The second is
 * `cancel_reason` and the status. A key is free again before its record leaves the database.
 */
const NOT_SEALED = ["maker_open", "close_reason", "key_hash", "terms_hash"];

it.each([
  ["requests", REQUESTS, requests],
  ["quotes", QUOTES, quotes],
  ["matches", MATCHES, matches],
] as const)("seals every column of %s", (_name, sealed, table) => {
  const columns = Object.values(getTableColumns(table))
    .map((column) => column.name)
    .filter((name) => !NOT_SEALED.includes(name));
  expect(new Set(Object.keys(sealed.columns))).toEqual(new Set(columns));
});
