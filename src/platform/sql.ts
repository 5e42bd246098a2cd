/**
 * SQL text with its parameters, composed from tagged templates.
 *
 * D1 hands integers back as doubles and refuses bigint binds, so amounts cross this border as decimal text and are
 * cast inside SQLite. Ids are UUIDs in TypeScript and 16-byte BLOBs in D1; `uuid` and `readUuid` are the two doors.
 */

export type SqlParam = string | number | null;
export type Sql = { readonly text: string; readonly params: readonly SqlParam[] };

/** The largest magnitude a balance or posting may have. Above it, `CAST` would clamp and sums could turn REAL. */
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

/** Trusted text, such as a column list. Never anything a caller sent. */
export function raw(text: string): Sql {
  return { text, params: [] };
}

export function join(parts: readonly Sql[], separator: string): Sql {
  return {
    text: parts.map((part) => part.text).join(separator),
    params: parts.flatMap((part) => part.params),
  };
}

/** A UUID (or any hex, dashes ignored) as a BLOB parameter. */
export function uuid(id: string): Sql {
  return { text: "unhex(?,'-')", params: [id] };
}

/** `0x…` hex as a BLOB parameter. */
export function blob(hex: string): Sql {
  return { text: "unhex(?)", params: [hex.replace(/^0x/, "")] };
}

/** A UUID as SQLite's `hex()` returns it, back in its usual spelling. */
export function readUuid(hex: string): string {
  const h = hex.toLowerCase();
  return `${h.slice(0, 8)}-${h.slice(8, 12)}-${h.slice(12, 16)}-${h.slice(16, 20)}-${h.slice(20)}`;
}

/** D1's limits of one statement; a local D1 accepts more, so they are ours to keep. */
const MAX_PARAMS = 100;
const MAX_STATEMENT_BYTES = 100_000;

export function prepare(db: D1Database, statement: Sql): D1PreparedStatement {
  if (statement.params.length > MAX_PARAMS)
    throw new RangeError(`a statement binds ${statement.params.length} parameters`);
  if (statement.text.length > MAX_STATEMENT_BYTES)
    throw new RangeError(`a statement is ${statement.text.length} bytes long`);
  return db.prepare(statement.text).bind(...statement.params);
}

export async function all<Row>(db: D1Database, statement: Sql): Promise<Row[]> {
  return (await prepare(db, statement).all<Row>()).results;
}

export async function first<Row>(db: D1Database, statement: Sql): Promise<Row | undefined> {
  return (await prepare(db, statement).first<Row>()) ?? undefined;
}

function toSql(value: SqlValue): Sql {
  if (typeof value === "bigint") {
    if (value > MAX_NATIVE_UNITS || value < -MAX_NATIVE_UNITS)
      throw new RangeError("amount beyond 2^62 bound to SQL");
    return { text: "CAST(? AS INTEGER)", params: [value.toString()] };
  }
  if (typeof value === "boolean") return { text: "?", params: [value ? 1 : 0] };
  if (typeof value === "object" && value !== null) return value;
  return { text: "?", params: [value] };
}
