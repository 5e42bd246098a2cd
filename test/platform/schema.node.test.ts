import { globSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { is } from "drizzle-orm";
import { getTableConfig, SQLiteTable } from "drizzle-orm/sqlite-core";
import { describe, expect, it } from "vitest";
import { DEPOSIT_STATUSES, WITHDRAWAL_STATUSES } from "../../src/custody/column-values.ts";
import { CANCEL_REASONS, QUOTE_STATUSES, REQUEST_STATUSES } from "../../src/rfq/statuses.ts";
import { REQUEST_SIDES } from "../../src/assets/asset-fields.ts";
import { migratedDatabase, migrationFiles, readMigration } from "../../scripts/migrations/files.ts";
import { commentOf, shapesOfDatabase, valuesOf } from "../support/node/schema.ts";

const database = migratedDatabase();
const migrated = shapesOfDatabase(database);
const schema = migrationFiles()
  .map(readMigration)
  .filter((text) => text.includes("CREATE TABLE "))
  .join("\n");

const modules: object[] = await Promise.all(
  globSync("src/*/tables.ts").map((file) => import(resolve(file))),
);
const tables = modules
  .flatMap((module) => Object.values(module))
  .filter((of) => is(of, SQLiteTable));

it.each(tables.map(getTableConfig))("the drizzle table $name is as migrated", (table) => {
  const types = table.columns.map((column) => [
    column.name,
    `${column.getSQLType().toUpperCase()}${column.notNull ? " NOT NULL" : ""}`,
  ]);
  expect(migrated.get(table.name)?.types).toMatchObject(Object.fromEntries(types));
});

const cancelReason = valuesOf("cancel_reason", CANCEL_REASONS);

it.each([
  ["deposits", valuesOf("status", DEPOSIT_STATUSES)],
  ["withdrawals", valuesOf("status", WITHDRAWAL_STATUSES)],
  ["requests", valuesOf("status", REQUEST_STATUSES)],
  ["requests", valuesOf("side", REQUEST_SIDES)],
  ["quotes", `status = 'open' OR ${valuesOf("status", QUOTE_STATUSES.slice(1))}`],
  ["quotes", `cancel_reason IS NULL OR status = 'cancelled' AND ${cancelReason}`],
])("%s has the CHECK %s", (table, check) => {
  expect(Object.values(migrated.get(table)?.checks ?? {})).toContain(check);
});

describe("the annotated schema", () => {
  it("has STRICT tables only", () => {
    expect([...migrated].filter(([, { strict }]) => !strict)).toEqual([]);
  });

  it.each([...migrated.keys()])("has a purpose and a valid example row of %s", (name) => {
    const { purpose, example } = commentOf(name);
    expect(purpose.length).toBeGreaterThan(20);
    const row = readRow(example);
    expect([...row.keys()]).toEqual(migrated.get(name)?.columns);
    insert(name, row);
  });

  it.each(
    database
      .prepare("SELECT name FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql <> ''")
      .all()
      .map(({ name }) => String(name))
      // A trigger that was changed, added later or generated has a file of its own.
      .filter((name) => new RegExp(`(INDEX|TRIGGER) ${name}\\b`).test(schema)),
  )("defines %s directly below its table", (name) => {
    const { tbl_name: table } = database
      .prepare("SELECT tbl_name FROM sqlite_master WHERE name = ?")
      .get(name) ?? { tbl_name: "" };
    const before = schema.slice(0, schema.search(new RegExp(`(INDEX|TRIGGER) ${name}\\b`)));
    expect(before.match(/CREATE TABLE (\w+)/g)?.at(-1)).toBe(`CREATE TABLE ${String(table)}`);
  });

  it.each(migrationFiles())("%s has lines of at most 100 columns", (file) => {
    const long = readMigration(file)
      .split("\n")
      .filter((line) => Array.from(line).length > 100);
    expect(long).toEqual([]);
  });
});

describe("triggers that act", () => {
  const design = readFileSync("docs/design.md", "utf8");
  const listed = [...design.matchAll(/^\| `(\w+)` \|.*\| `(src\/[^`]+)` \|$/gm)];
  const statement = /^\s*(?:INSERT|REPLACE|UPDATE|DELETE)\b/m;

  it("are listed in docs/design.md", () => {
    const acting = database
      .prepare("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
      .all()
      .filter(({ sql }) => statement.test(String(sql).split(/\bBEGIN\s/)[1] ?? ""));
    expect(listed.map(([, name = ""]) => name).toSorted()).toEqual(
      acting.map(({ name }) => String(name)).toSorted(),
    );
  });

  it.each(listed.map(([, name = "", file = ""]) => [name, file]))(
    "%s is named in %s",
    (name, file) => {
      expect(readFileSync(file, "utf8")).toContain(`\`${name}\``);
    },
  );
});

type Value = string | bigint | null | Uint8Array;

/** Parses `column value, …`. A value is an integer, NULL, 'text' or a BLOB in shortened hex. */
function readRow(example: string): Map<string, Value> {
  const row = new Map<string, Value>();
  const text = example.replace(/\s+/g, " ").trim();
  for (const [, name = "", literal = ""] of text.matchAll(/(\w+) ('(?:[^']|'')*'|[^, ]+)(?:, |$)/g))
    row.set(name, readValue(literal));
  return row;
}

function readValue(literal: string): Value {
  if (literal === "NULL") return null;
  if (literal.startsWith("'")) return literal.slice(1, -1).replaceAll("''", "'");
  if (/^-?\d+$/.test(literal)) return BigInt(literal);
  return Buffer.from(literal.replace(/^0x/, "").replace("…", "00"), "hex");
}

/** Has no triggers, because they require related rows. */
const copy = migratedDatabase();
for (const { name } of copy.prepare("SELECT name FROM sqlite_master WHERE type = 'trigger'").all())
  copy.exec(`DROP TRIGGER ${String(name)}`);

function insert(name: string, row: ReadonlyMap<string, Value>): void {
  const columns = [...row.keys()].join(", ");
  const places = [...row].map(() => "?").join(", ");
  copy.prepare(`INSERT INTO ${name} (${columns}) VALUES (${places})`).run(...row.values());
}
