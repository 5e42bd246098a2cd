/** The schema as the migrations state it. */
import type { DatabaseSync, SQLOutputValue } from "node:sqlite";
import { migrationFiles, readMigration } from "../../../scripts/migrations/files.ts";

type TableShape = {
  readonly strict: boolean;
  /** Those that an INSERT names, in the order of the table. */
  readonly columns: readonly string[];
  /** `TYPE [NOT NULL]` of each column. */
  readonly types: Readonly<Record<string, string>>;
  readonly checks: Readonly<Record<string, string>>;
};

/** All migrations, in order. */
const schemaText = migrationFiles().map(readMigration).join("\n");

export const schemaTables = (): string[] =>
  [...schemaText.matchAll(/^CREATE TABLE (\w+) \(/gm)].map(([, name = ""]) => name);

/**
 * The comment above a table: its purpose and an example row. A column that a later migration adds
 * has `-- Example: column value` above its ALTER TABLE.
 */
export function commentOf(table: string): { purpose: string; example: string } {
  const above = commentAbove(schemaText.indexOf(`CREATE TABLE ${table} (`));
  const [purpose = "", example = ""] = above.split(/\n\nExample row:[^\n]*\n/);
  const added = [...schemaText.matchAll(new RegExp(`^ALTER TABLE ${table} ADD COLUMN`, "gm"))].map(
    ({ index }) => commentAbove(index).split("Example: ")[1] ?? "",
  );
  return { purpose, example: [example, ...added].filter((text) => text !== "").join(", ") };
}

function commentAbove(at: number): string {
  const above = schemaText.slice(0, at).trimEnd().split("\n");
  const comment: string[] = [];
  for (let line = above.pop(); line?.startsWith("--") === true; line = above.pop())
    comment.unshift(line.replace(/^-- ?/, ""));
  // Quotes in comments are typographic, because D1 splits a remote migration by rules of its own.
  return comment.join("\n").replaceAll("’", "'").replaceAll("”", '"');
}

export function shapesOfDatabase(db: DatabaseSync): ReadonlyMap<string, TableShape> {
  const tables = query(db, "SELECT name, strict FROM pragma_table_list WHERE type = 'table'");
  const shapes = tables
    .filter(({ name }) => !String(name).startsWith("sqlite_"))
    .map(({ name, strict }) => [String(name), tableOf(db, String(name), strict === 1)] as const);
  return new Map(shapes);
}

function tableOf(db: DatabaseSync, table: string, strict: boolean): TableShape {
  const [master] = query(
    db,
    "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?",
    table,
  );
  const columns = query(
    db,
    `SELECT name, hidden, type || iif("notnull" OR pk, ' NOT NULL', '') AS type
      FROM pragma_table_xinfo(?)`,
    table,
  );
  return {
    strict,
    columns: columns.filter(({ hidden }) => hidden === 0).map(({ name }) => String(name)),
    types: Object.fromEntries(columns.map(({ name, type }) => [String(name), String(type)])),
    checks: checksOf(withoutComments(master?.["sql"])),
  };
}

/** Every CHECK of a table by name. One without a name gets its place. */
function checksOf(sql: string): Record<string, string> {
  const checks: Record<string, string> = {};
  for (const found of sql.matchAll(/(?:\bCONSTRAINT\s+"?(\w+)"?\s+)?\bCHECK\s*\(/gi)) {
    const from = found.index + found[0].length;
    let open = 1;
    let end = from;
    while (open > 0) {
      open += sql[end] === "(" ? 1 : sql[end] === ")" ? -1 : 0;
      end++;
    }
    checks[found[1] ?? `unnamed at ${found.index}`] = oneLine(sql.slice(from, end - 1));
  }
  return checks;
}

/** The text of a CHECK that allows a column these values only. */
export function valuesOf(name: string, values: readonly string[]): string {
  return `${name} IN (${values.map((value) => `'${value}'`).join(", ")})`;
}

type Row = Readonly<Record<string, SQLOutputValue>>;

function query(db: DatabaseSync, sql: string, ...params: string[]): Row[] {
  return db.prepare(sql).all(...params);
}

/** A schema's text without its comments. */
function withoutComments(sql: SQLOutputValue | undefined): string {
  return (typeof sql === "string" ? sql : "").replace(/--[^\n]*/g, "");
}

/** White space and quotes around names do not matter. */
function oneLine(sql: string): string {
  return sql
    .replaceAll('"', "")
    .replace(/\s+/g, " ")
    .replace(/\( /g, "(")
    .replace(/ \)/g, ")")
    .trim();
}
