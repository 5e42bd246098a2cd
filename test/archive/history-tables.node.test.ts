/** A history reads as the database does, because its tables and indexes are the journal's. */
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { migratedDatabase } from "../../scripts/migrations/files.ts";
import { STATEMENTS } from "../../src/archive/history-tables.ts";

const made = (database: DatabaseSync, type: "table" | "index") =>
  new Map(
    database
      .prepare("SELECT name, sql FROM sqlite_master WHERE type = ? AND sql IS NOT NULL")
      .all(type)
      .map(({ name, sql }) => [String(name), String(sql).replaceAll(/\s+/g, " ")]),
  );

const history = new DatabaseSync(":memory:");
for (const statement of STATEMENTS) history.exec(statement);
const database = migratedDatabase();

it("has indexes of the journal", () => {
  const journal = made(database, "index");
  const deposits = "CREATE INDEX deposits_hash ON deposits (user_id, transaction_hash)";
  journal.set("deposits_hash", deposits);
  for (const [name, text] of made(history, "index"))
    expect([name, text]).toEqual([name, journal.get(name)]);
});

const columnsOf = (of: DatabaseSync, table: string) =>
  of
    .prepare("SELECT name, type, pk FROM pragma_table_info(?)")
    .all(table)
    .map((row) => ({ ...row }));

it.each(["transfers", "matches"])("has all columns of %s", (table) => {
  expect(columnsOf(history, table)).toEqual(columnsOf(database, table));
});

it.each(["accounts", "deposits"])("has columns of %s", (table) => {
  expect(columnsOf(database, table)).toEqual(expect.arrayContaining(columnsOf(history, table)));
});
