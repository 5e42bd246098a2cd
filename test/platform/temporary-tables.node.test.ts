/**
 * SQLite copies the rows of INSERT … SELECT into a temporary table if the table has triggers. So do
 * IN lists of more than two values in a CHECK or in the condition of an index. Both cost more than
 * the look-up that they save, and the triggers of the journal, of quotes and of events run for each
 * quote.
 */
import { expect, it } from "vitest";
import { migratedDatabase } from "../../scripts/migrations/files.ts";

const database = migratedDatabase();

it.each([
  ["a transfer", "transfers", "amount"],
  ["a run of events", "event_commands", "events"],
  ["a quote", "quote_commands", "price"],
])("posting %s copies no rows", (_, table, column) => {
  const steps = database.prepare(`EXPLAIN INSERT INTO ${table} (${column}) VALUES (1)`).all();
  const copies = steps.filter(({ opcode, p4 }) => opcode === "OpenEphemeral" && p4 === null);
  expect(steps.some(({ opcode }) => opcode === "Program")).toBe(true);
  expect(copies).toEqual([]);
});

it.each([
  ["transfers", "amount"],
  ["quotes", "price"],
])("a usual row of %s builds no list of values", (table, column) => {
  const steps = database.prepare(`EXPLAIN INSERT INTO ${table} (${column}) VALUES (1)`).all();
  const lists = steps.filter(({ opcode, p4 }) => opcode === "OpenEphemeral" && p4 !== null);
  // A comparison before it jumps over it.
  const skipped = lists.filter((list) =>
    steps
      .slice(0, steps.indexOf(list))
      .some(({ opcode, p2 }) => SKIPS.has(String(opcode)) && Number(p2) > Number(list["addr"])),
  );
  expect(skipped).toEqual(lists);
});

const SKIPS = new Set(["Eq", "IsNull"]);
