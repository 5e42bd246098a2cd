/**
 * Commands of one kind as rows of one JSON parameter, so that a single statement carries out many
 * of them. Its text depends on which fields the commands have, but not on their number.
 *
 * The same fields are bound one by one where a single command is looked at, as when the reason of
 * its rejection is read. A precondition is written over either form.
 */
import { atom, type Columns, type Expr, expr, join, raw, type Sql, sql } from "./sql.ts";

/**
 * How a field travels in JSON: ids and hashes as hexadecimal, amounts as decimal text. The cast of
 * an amount above SQLite's integers gives the largest of them, which no balance reaches.
 */
type Kind = "blob" | "text" | "integer" | "amount";
export type Fields<Name extends string = string> = Readonly<Record<Name, Kind>>;
/** Amounts as decimal text, because a balance may be above what a double holds. */
export type CommandRow<Name extends string> = Readonly<Record<Name, string | number | null>>;

/** The fields as columns of a table or of a trigger's row, such as `NEW`. */
export function columnsOf<Name extends string>(fields: Fields<Name>, table: string): Columns<Name> {
  return mapFields(fields, (_, name) => atom(`${table}.${name}`));
}

/** The fields of one command as parameters. */
export function boundColumns<Name extends string>(
  fields: Fields<Name>,
  row: CommandRow<Name>,
): Columns<Name> {
  return mapFields(fields, (kind, name) => decoded(kind, expr`${row[name]}`));
}

/**
 * A SELECT of the commands, one row each, in their order, with the fields as columns. SQLite takes
 * a third of a microsecond for each field that it reads from JSON. So the ids and hashes that every
 * row has are one text, and a field that no row has is not read.
 */
export function selectRows<Name extends string>(
  fields: Fields<Name>,
  rows: readonly CommandRow<Name>[],
): Sql {
  const names = namesOf(fields).filter((name) => rows.some((row) => row[name] !== null));
  const packed = names.filter(
    (name) =>
      fields[name] === "blob" &&
      new Set(rows.map((row) => String(row[name] ?? "").length)).size === 1,
  );
  const others = names.filter((name) => !packed.includes(name));
  let from = 1;
  const columns = namesOf(fields).map((name) => {
    if (packed.includes(name)) {
      const bytes = bytesOf(rows[0]?.[name]);
      from += bytes;
      return raw(`substr(packed, ${from - bytes}, ${bytes}) AS ${name}`);
    }
    const other = others.indexOf(name);
    if (other < 0) return raw(`NULL AS ${name}`);
    return sql`${decoded(fields[name], atom(`value ->> ${1 + other}`))} AS ${raw(name)}`;
  });
  const json = JSON.stringify(
    rows.map((row) => [
      packed.map((name) => row[name]).join(""),
      ...others.map((name) => row[name]),
    ]),
  );
  // MATERIALIZED, because the text would be converted again for each column.
  return sql`WITH commands AS MATERIALIZED (
      SELECT key, value, unhex(value ->> 0, '-') AS packed FROM json_each(${json}))
    SELECT ${join(columns, ", ")} FROM commands ORDER BY key`;
}

function bytesOf(value: string | number | null | undefined): number {
  return String(value).replaceAll("-", "").length / 2;
}

function decoded(kind: Kind, value: Expr): Expr {
  if (kind === "blob") return atom(`unhex(${value.text},'-')`, value.params);
  return kind === "amount" ? atom(`CAST(${value.text} AS INTEGER)`, value.params) : value;
}

/** Safe casts: `Object.keys` and `Object.fromEntries` widen the names of the fields. */
function namesOf<Name extends string>(fields: Fields<Name>): readonly Name[] {
  return Object.keys(fields) as Name[];
}

function mapFields<Name extends string>(
  fields: Fields<Name>,
  map: (kind: Kind, name: Name) => Expr,
): Columns<Name> {
  const entries = namesOf(fields).map((name) => [name, map(fields[name], name)]);
  return Object.fromEntries(entries) as Record<Name, Expr>;
}
