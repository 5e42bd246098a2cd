/**
 * SQL text with its parameters, composed from tagged templates.
 *
 * `sql` makes a statement, or a part of one that is not an expression (a column list, a FROM
 * clause). `expr` makes an expression. It adds parentheses, so that the expression keeps its
 * meaning wherever it is interpolated.
 *
 * D1 returns integers as doubles and cannot bind a bigint, so amounts are passed as decimal text
 * and cast inside SQLite. Ids are UUIDs in TypeScript and 16-byte BLOBs in D1. Write them with
 * `uuid` and read them with `readUuid`.
 */
import { PLATFORM } from "./platform-limits.ts";

export type SqlParam = string | number | null;
export type Sql = { readonly text: string; readonly params: readonly SqlParam[] };
export type Expr = Sql & { readonly isExpr: true };

/** The largest balance or posting. Above it `CAST` could clamp, and a sum could become REAL. */
export const MAX_NATIVE_UNITS = 2n ** 62n;

type SqlValue = SqlParam | bigint | boolean | Sql;

export function sql(strings: TemplateStringsArray, ...values: readonly SqlValue[]): Sql {
  let text = strings[0] ?? "";
  const params: SqlParam[] = [];
  values.forEach((value, index) => {
    const part = toSql(value);
    text += part.text + (strings[index + 1] ?? "");
    params.push(...part.params);
  });
  return { text, params };
}

export function expr(strings: TemplateStringsArray, ...values: readonly SqlValue[]): Expr {
  const { text, params } = sql(strings, ...values);
  return { text: `(${text})`, params, isExpr: true };
}

/** What needs no parentheses: a column, a literal or a call. Trusted text, never a caller's. */
export function atom(text: string, params: readonly SqlParam[] = []): Expr {
  return { text, params, isExpr: true };
}

/** A number of the code as a literal, for text that cannot have parameters, such as a trigger's. */
export function literal(value: number): Expr {
  if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is not an integer`);
  return atom(String(value));
}

/** `MAX_NATIVE_UNITS` in SQL. */
export const MAX_NATIVE = atom(String(MAX_NATIVE_UNITS));

/** Trusted text, such as a column list. It must never contain a caller's input. */
export function raw(text: string): Sql {
  return { text, params: [] };
}

export function join(parts: readonly Sql[], separator: string): Sql {
  return {
    text: parts.map((part) => part.text).join(separator),
    params: parts.flatMap((part) => part.params),
  };
}

/** The conjunction of `conditions`. True if there are none. */
export function and(conditions: readonly Expr[]): Expr {
  return conditions.length === 0 ? TRUE : expr`${join(conditions, " AND ")}`;
}

export const TRUE: Expr = atom("1");
export const FALSE: Expr = atom("0");

/** A UUID, or any hexadecimal text, as a BLOB parameter. Dashes are ignored. */
export function uuid(id: string): Expr {
  return atom("unhex(?,'-')", [id]);
}

/** A SELECT of values, for `IN`. Their number does not change the statement's text. */
export function listed(values: readonly (string | number)[]): Sql {
  return sql`SELECT value FROM json_each(${JSON.stringify(values)})`;
}

/** As `listed`: UUIDs, or any hexadecimal texts, as BLOBs. */
export function uuids(ids: readonly string[]): Sql {
  return sql`SELECT unhex(value, '-') FROM json_each(${JSON.stringify(ids)})`;
}

/** Hexadecimal text with the prefix `0x` as a BLOB parameter. */
export function blob(hex: string): Expr {
  return atom("unhex(?)", [hex.replace(/^0x/, "")]);
}

/** Converts the text that SQLite's `hex()` returns into a UUID. */
export function readUuid(hex: string): string {
  const h = hex.toLowerCase();
  return `${h.slice(0, 8)}-${h.slice(8, 12)}-${h.slice(12, 16)}-${h.slice(16, 20)}-${h.slice(20)}`;
}

/** Expressions by output name. `select` makes a column list of them, `jsonObject` a JSON object. */
export type Columns<Name extends string = string> = Readonly<Record<Name, Expr>>;

/** Safe cast: the names stay. */
export function mapColumns<Name extends string>(
  columns: Columns<Name>,
  map: (name: Name) => Expr,
): Columns<Name> {
  const names = Object.keys(columns) as Name[];
  return Object.fromEntries(names.map((name) => [name, map(name)])) as Record<Name, Expr>;
}

/** A column with the type of its values, from which the type of the selected row follows. */
export type Typed<Value> = Expr & { readonly value?: Value };
export const typed = <Value>(text: string): Typed<Value> => atom(text);
export type RowOf<Listed> = {
  readonly [Name in keyof Listed]: Listed[Name] extends Typed<infer Value> ? Value : never;
};

export function select(columns: Columns): Sql {
  return join(
    Object.entries(columns).map(([name, column]) => sql`${column} AS ${raw(`"${name}"`)}`),
    ", ",
  );
}

export function jsonObject(columns: Columns): Expr {
  const members = Object.entries(columns);
  return call(
    "json_object",
    members.flatMap(([name, column]) => [raw(`'${name}'`), column]),
  );
}

export function jsonArray(values: readonly Expr[]): Expr {
  return call("json_array", values);
}

function call(name: string, values: readonly Sql[]): Expr {
  if (values.length > PLATFORM.functionArguments)
    throw new RangeError(`${name} has ${values.length} arguments`);
  const { text, params } = join(values, ", ");
  return atom(`${name}(${text})`, params);
}

/**
 * JSON as text. Inside another JSON function it becomes a string and not a part of its value, which
 * otherwise depends on whether SQLite passed its subtype on.
 */
export function jsonText(value: Expr): Expr {
  return expr`${value} || ''`;
}

/** D1's limit is for a value, and for a row with all of its values. */
const MAX_VALUE_BYTES = 0.95 * PLATFORM.valueBytes;

export function prepare(db: D1Database, { text, params }: Sql): D1PreparedStatement {
  checkLimits(text, params);
  return db.prepare(text).bind(...params);
}

/** D1's limits of one statement. Checked here because a local D1 accepts more. */
export function checkLimits(text: string, params: readonly unknown[]): void {
  if (params.length > PLATFORM.params)
    throw new RangeError(`a statement binds ${params.length} parameters`);
  if (text.length > PLATFORM.statementBytes)
    throw new RangeError(`a statement is ${text.length} bytes long`);
  for (const value of params)
    // A character takes at most three bytes of UTF-8, so short texts are not encoded.
    if (
      typeof value === "string" &&
      value.length * 3 > MAX_VALUE_BYTES &&
      new TextEncoder().encode(value).length > MAX_VALUE_BYTES
    )
      throw new RangeError(`a value of a statement is more than ${MAX_VALUE_BYTES} bytes long`);
}

export async function all<Row>(db: D1Database, statement: Sql): Promise<Row[]> {
  return (await prepare(db, statement).all<Row>()).results;
}

export async function first<Row>(db: D1Database, statement: Sql): Promise<Row | undefined> {
  return (await prepare(db, statement).first<Row>()) ?? undefined;
}

/** The value of one expression. A subquery that finds no row is null. */
export async function scalar<Value>(db: D1Database, value: Expr): Promise<Value> {
  // Safe cast: a SELECT without FROM has exactly one row.
  const row = (await first(db, sql`SELECT ${value} AS value`)) as { readonly value: Value };
  return row.value;
}

/** Runs the statements in one transaction. Returns the rows of each. */
export async function batch<Row>(db: D1Database, statements: readonly Sql[]): Promise<Row[][]> {
  const results = await db.batch<Row>(statements.map((statement) => prepare(db, statement)));
  return results.map(({ results: rows }) => rows);
}

/** Whether the condition is true now. */
export async function holds(db: D1Database, condition: Sql): Promise<boolean> {
  const row = await first<{ holds: number }>(db, sql`SELECT ${condition} AS holds`);
  return row?.holds === 1;
}

function toSql(value: SqlValue): Sql {
  if (typeof value === "bigint") {
    if (value > MAX_NATIVE_UNITS || value < -MAX_NATIVE_UNITS)
      throw new RangeError("an amount above 2^62 cannot be bound");
    return { text: "CAST(? AS INTEGER)", params: [value.toString()] };
  }
  if (typeof value === "object" && value !== null) return value;
  return { text: "?", params: [typeof value === "boolean" ? Number(value) : value] };
}
