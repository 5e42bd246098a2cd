import { getTableColumns } from "drizzle-orm";
import { expect, it } from "vitest";
import { MATCHES, QUOTES, REQUESTS } from "../../src/archive/records.ts";
import { matches, quotes, requests } from "../../src/rfq/tables.ts";

/** It bounds the open quotes of a maker, so an ended quote's is never read. */
const ONLY_WHILE_OPEN = "maker_open";

it.each([
  ["requests", REQUESTS, requests],
  ["quotes", QUOTES, quotes],
  ["matches", MATCHES, matches],
] as const)("seals every column of %s", (_name, sealed, table) => {
  const columns = Object.values(getTableColumns(table))
    .map((column) => column.name)
    .filter((name) => name !== ONLY_WHILE_OPEN);
  expect(new Set(Object.keys(sealed.columns))).toEqual(new Set(columns));
});
