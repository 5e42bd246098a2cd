/**
 * Bytes that a row of each table takes with its indexes, measured with SQLite: D1 has no `dbstat`.
 * The rows are like the example rows of the schema, with ids, hashes and texts of full length.
 */
import { randomBytes } from "node:crypto";
import type { DatabaseSync } from "node:sqlite";
import { migratedDatabase } from "../../../scripts/migrations/files.ts";
import { commentOf, schemaTables } from "./schema.ts";

const ROWS = 2_000;
/** Bytes of the BLOBs that are no ids, by the name of their column. */
const BLOBS: Readonly<Record<string, number>> = {
  signed: 400,
  data: 300,
  address: 20,
  token: 20,
  key_hash: 12,
  terms_hash: 4,
};
const BLOB_NAMES: readonly (readonly [RegExp, number])[] = [
  [/(^|_)hash$|^salt$|^payment_id$|_ref$/, 32],
  [/address$|^(vault|factory|sender)$/, 20],
];
/** Columns whose value SQLite gives or that say which row it is. */
const NUMBERED = /(_id|_seq|^seq|^nonce|^number|ordinal|position|block_number|^day)$/;

export function measuredRowBytes(): Map<string, number> {
  const db = migratedDatabase();
  for (const { name } of db.prepare("SELECT name FROM sqlite_master WHERE type = 'trigger'").all())
    db.exec(`DROP TRIGGER ${String(name)}`);
  db.exec("PRAGMA ignore_check_constraints = ON; BEGIN");
  const tables = schemaTables();
  for (const table of tables) fill(db, table);
  db.exec("COMMIT");
  const sizes = db
    .prepare(
      `SELECT m.tbl_name, sum(s.pgsize) AS bytes FROM dbstat s JOIN sqlite_master m
        ON m.name = s.name GROUP BY m.tbl_name`,
    )
    .all();
  const bytes = new Map(sizes.map((row) => [row["tbl_name"], Number(row["bytes"])]));
  // A table of one row only is not worth measuring.
  return new Map(
    tables.map((table) => [
      table,
      Math.round((bytes.get(table) ?? 0) / Math.max(1, rowsOf(db, table))),
    ]),
  );
}

function fill(db: DatabaseSync, table: string): void {
  const example = exampleOf(table);
  const columns = db.prepare("SELECT name, type FROM pragma_table_info(?)").all(table);
  const insert = db.prepare(
    `INSERT OR IGNORE INTO ${table} VALUES (${columns.map(() => "?").join(", ")})`,
  );
  for (let row = 0; row < ROWS; row++)
    insert.run(
      ...columns.map(({ name, type }) =>
        valueOf(String(name), String(type), example.get(String(name)) ?? "1", row),
      ),
    );
}

function rowsOf(db: DatabaseSync, table: string): number {
  return Number(db.prepare(`SELECT count(*) AS rows FROM ${table}`).get()?.["rows"]);
}

function exampleOf(table: string): Map<string, string> {
  const example = commentOf(table).example.replace(/\s+/g, " ");
  return new Map(
    [...example.matchAll(/(\w+) ('(?:[^']|'')*'|[^, ]+)(?:, |\s|$)/g)].map(
      ([, name = "", value = ""]) => [name, value],
    ),
  );
}

function valueOf(name: string, type: string, example: string, row: number) {
  if (example === "NULL") return null;
  if (type === "BLOB") return randomBytes(blobBytes(name));
  if (type === "INTEGER")
    return BigInt(/^-?\d+$/.test(example) ? example : "1") + numbered(name, row);
  const text = example.replaceAll("'", "").replaceAll("…", "-7c11-4a2f-8d3e-");
  return NUMBERED.test(name) || /name|email|stream|key/.test(name) ? `${text}${row}` : text;
}

function numbered(name: string, row: number): bigint {
  return NUMBERED.test(name) ? BigInt(row) : 0n;
}

function blobBytes(name: string): number {
  return BLOBS[name] ?? BLOB_NAMES.find(([pattern]) => pattern.test(name))?.[1] ?? 16;
}
