import { expect, it } from "vitest";
import { MATCHES, QUOTES, REQUESTS } from "../../src/archive/sealed-columns.ts";
import { migratedDatabase } from "../../scripts/migrations/files.ts";

/**
 * The first bounds the open quotes of a maker, so an ended quote's is never read. The second is
 * `cancel_reason` and the status. A key is free again before its record leaves the database.
 */
const NOT_SEALED = ["maker_open", "close_reason", "key_hash", "terms_hash"];

const database = migratedDatabase();

it.each([
  ["requests", REQUESTS],
  ["quotes", QUOTES],
  ["matches", MATCHES],
] as const)("seals every column of %s", (table, sealed) => {
  const columns = database
    .prepare("SELECT name FROM pragma_table_xinfo(?)")
    .all(table)
    .map(({ name }) => String(name))
    .filter((name) => !NOT_SEALED.includes(name));
  expect(new Set(Object.keys(sealed.columns))).toEqual(new Set(columns));
});
