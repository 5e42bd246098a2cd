/**
 * The schema as two sides state it, in one form: the migrations' SQL, and the drizzle tables, which
 * declare as much of it as TypeScript reads.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { DatabaseSync, SQLOutputValue } from "node:sqlite";
import { is, type SQL } from "drizzle-orm";
import { getTableConfig, SQLiteSyncDialect, SQLiteTable } from "drizzle-orm/sqlite-core";
import { migrationFiles, readMigration } from "../../../scripts/migrations/files.ts";

type TableShape = {
  readonly strict: boolean;
  readonly autoincrement: boolean;
  /** `name TYPE [NOT NULL] [DEFAULT …]`, in the order of the table. */
  readonly columns: readonly string[];
  readonly primaryKey: readonly string[];
  /** `[UNIQUE] (columns) [WHERE …]` by name; constraints of the table itself included. */
  readonly indexes: Readonly<Record<string, string>>;
  readonly checks: Readonly<Record<string, string>>;
  readonly foreignKeys: number;
};

type Shapes = ReadonlyMap<string, TableShape>;
type DeclaredShape = Omit<TableShape, "strict"> & {
  /** `column IN (values)` of each column that has certain values only. */
  readonly enums: readonly string[];
};

const ROOT = join(import.meta.dirname, "../../..");

/** All migrations, in order. */
export const schemaText = migrationFiles().map(readMigration).join("\n");

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

export function shapesOfDatabase(db: DatabaseSync): Shapes {
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
  const sql = withoutComments(master?.["sql"]);
  const columns = query(db, "SELECT * FROM pragma_table_xinfo(?)", table);
  const primaryKey = columns.filter(({ pk }) => pk !== 0);
  return {
    strict,
    autoincrement: /\bAUTOINCREMENT\b/i.test(sql),
    columns: columns.map(({ name, type, notnull, dflt_value, hidden }) =>
      column({
        name: String(name),
        type: `${String(type)}${hidden === 0 ? "" : " GENERATED"}`,
        notNull: notnull === 1,
        default: dflt_value === null ? undefined : String(dflt_value),
      }),
    ),
    primaryKey: primaryKey
      .toSorted((a, b) => Number(a["pk"]) - Number(b["pk"]))
      .map(({ name }) => String(name)),
    indexes: Object.fromEntries(
      query(db, "SELECT * FROM pragma_index_list(?) WHERE origin <> 'pk'", table).map((index) => [
        String(index["name"]),
        indexOf(db, index),
      ]),
    ),
    checks: checksOf(sql),
    foreignKeys: query(db, "SELECT * FROM pragma_foreign_key_list(?)", table).length,
  };
}

function indexOf(db: DatabaseSync, index: Row): string {
  const name = String(index["name"]);
  const [master] = query(
    db,
    "SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?",
    name,
  );
  const parts = query(db, "SELECT * FROM pragma_index_xinfo(?) WHERE key = 1", name).map((part) =>
    [
      part["name"] ?? "<expression>",
      ...(part["desc"] === 0 ? [] : ["DESC"]),
      ...(part["coll"] === "BINARY" ? [] : ["COLLATE", part["coll"]]),
    ].join(" "),
  );
  const where = /\bWHERE\b(.*)$/is.exec(withoutComments(master?.["sql"]))?.[1];
  return shapeOfIndex(index["unique"] === 1, parts, where);
}

/**
 * Every CHECK of a table by name. One without a name gets its place, which no drizzle table has.
 */
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

/** The folders of `src` that have a `tables.ts`. */
export const domainsWithTables: readonly string[] = readdirSync(join(ROOT, "src"))
  .filter((domain) => existsSync(join(ROOT, "src", domain, "tables.ts")))
  .toSorted();

/** Every drizzle table that these modules export. */
export function shapesOfTables(
  modules: readonly Readonly<Record<string, unknown>>[],
): ReadonlyMap<string, DeclaredShape> {
  const shapes = new Map<string, DeclaredShape>();
  for (const value of modules.flatMap((module) => Object.values(module))) {
    if (!is(value, SQLiteTable)) continue;
    const { name } = getTableConfig(value);
    if (shapes.has(name)) throw new Error(`two drizzle tables are named ${name}`);
    shapes.set(name, shapeOfTable(value));
  }
  return shapes;
}

function shapeOfTable(table: SQLiteTable): DeclaredShape {
  const config = getTableConfig(table);
  const single = config.columns.filter(({ primary }) => primary);
  const [composite] = config.primaryKeys;
  const uniques = [
    ...config.columns
      .filter(({ isUnique }) => isUnique)
      .map(({ name, uniqueName }) => [uniqueName ?? "", [name]] as const),
    ...config.uniqueConstraints.map(
      ({ name, columns }) => [name ?? "", columns.map((part) => part.name)] as const,
    ),
  ];
  return {
    autoincrement: single.some((part) => "autoIncrement" in part && part.autoIncrement === true),
    columns: config.columns.map((part) =>
      column({
        name: part.name,
        type: part.getSQLType().toUpperCase() + (part.generated === undefined ? "" : " GENERATED"),
        notNull: part.notNull,
        default: part.default === undefined ? undefined : String(part.default),
      }),
    ),
    primaryKey: (composite?.columns ?? single).map(({ name }) => name),
    indexes: Object.fromEntries([
      ...uniques.map(([name, columns]) => [name, shapeOfIndex(true, columns, undefined)]),
      ...config.indexes.map((index) => [
        index.config.name,
        shapeOfIndex(
          index.config.unique,
          index.config.columns.map((part) => ("name" in part ? part.name : "<expression>")),
          index.config.where === undefined ? undefined : textOf(index.config.where),
        ),
      ]),
    ]),
    checks: Object.fromEntries(
      config.checks.map(({ name, value }) => [name, oneLine(textOf(value))]),
    ),
    foreignKeys: config.foreignKeys.length,
    enums: config.columns.flatMap(({ name, enumValues }) =>
      enumValues === undefined || enumValues.length === 0 ? [] : [valuesOf(name, enumValues)],
    ),
  };
}

/** The text of a CHECK that allows a column these values only. */
export function valuesOf(name: string, values: readonly string[]): string {
  return `${name} IN (${values.map((value) => `'${value}'`).join(", ")})`;
}

function column(of: {
  name: string;
  type: string;
  notNull: boolean;
  default: string | undefined;
}): string {
  const suffix = of.default === undefined ? "" : ` DEFAULT ${of.default}`;
  return `${of.name} ${of.type}${of.notNull ? " NOT NULL" : ""}${suffix}`;
}

function shapeOfIndex(
  unique: boolean,
  columns: readonly string[],
  where: string | undefined,
): string {
  const condition = where === undefined ? "" : ` WHERE ${oneLine(where)}`;
  return `${unique ? "UNIQUE " : ""}(${columns.join(", ")})${condition}`;
}

const dialect = new SQLiteSyncDialect();

function textOf(fragment: SQL): string {
  const { sql, params } = dialect.sqlToQuery(fragment);
  if (params.length > 0) throw new Error(`a schema has no parameters: ${sql}`);
  return sql;
}

type Row = Readonly<Record<string, SQLOutputValue>>;

function query(db: DatabaseSync, sql: string, ...params: string[]): Row[] {
  return db.prepare(sql).all(...params);
}

/** A schema's text without its comments; indexes that a constraint made have none. */
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
