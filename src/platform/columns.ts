/** Column types of the drizzle tables. They convert values of D1 to and from TypeScript. */
import { entityKind, type GetColumnData, type SQL, sql } from "drizzle-orm";
import {
  customType,
  SQLiteColumn,
  SQLiteColumnBuilder,
  type SQLiteTable,
} from "drizzle-orm/sqlite-core";
import { readUuid } from "./sql.ts";

/** D1 returns a BLOB as the array of its bytes. */
type Blob = readonly number[];

/** A UUID, stored as 16 bytes, because text would take 36 bytes in the row and in each index. */
export const uuid = customType<{ data: string; driverData: Blob }>({
  dataType: () => "blob",
  toDriver: (id) => sql`unhex(${id},'-')`,
  fromDriver: (bytes) => readUuid(hexOf(bytes)),
});

/** A hash, an address or call data as lower-case hexadecimal with `0x`, stored as bytes. */
export const hex = customType<{ data: `0x${string}`; driverData: Blob }>({
  dataType: () => "blob",
  toDriver: (digits) => sql`unhex(${digits.slice(2)})`,
  fromDriver: (bytes) => `0x${hexOf(bytes)}`,
});

/** An amount that may exceed 2^62. Stored as decimal text, so SQLite cannot calculate with it. */
export const decimal = customType<{ data: bigint; driverData: string }>({
  dataType: () => "text",
  toDriver: String,
  fromDriver: BigInt,
});

/** An amount up to 2^62, stored as an integer that statements calculate with. */
export function amount<Name extends string>(name: Name): AmountBuilder<Name> {
  return new AmountBuilder(name);
}

/**
 * The query builder selects a column of this type as `cast(… as text)`. That is needed because D1
 * returns integers as doubles, which are exact only up to 2^53.
 */
const SELECTED_AS_TEXT = "SQLiteNumericBigInt";

class AmountBuilder<Name extends string> extends SQLiteColumnBuilder<{
  name: Name;
  dataType: "bigint";
  columnType: typeof SELECTED_AS_TEXT;
  data: bigint;
  driverParam: string;
  enumValues: undefined;
}> {
  static override readonly [entityKind]: string = "AmountBuilder";

  constructor(name: Name) {
    super(name, "bigint", SELECTED_AS_TEXT);
  }

  /** Called by `sqliteTable`. */
  build(table: SQLiteTable): SQLiteColumn {
    return new Amount(table, this.config);
  }
}

class Amount extends SQLiteColumn {
  static override readonly [entityKind]: string = "Amount";

  override getSQLType(): string {
    return "integer";
  }

  override mapFromDriverValue(value: unknown): bigint {
    // D1 returns a number as a double, which may differ from the stored amount.
    if (typeof value !== "string") throw new TypeError(`${this.name} was not selected as text`);
    return BigInt(value);
  }

  override mapToDriverValue(value: unknown): unknown {
    return sql`CAST(${String(value)} AS INTEGER)`;
  }
}

/** The condition of a CHECK: the column has one of these values. */
export function oneOf(column: string, values: readonly string[]): SQL {
  return sql.raw(`${column} IN (${values.map((value) => `'${value}'`).join(", ")})`);
}

function hexOf(bytes: Blob): string {
  return Buffer.from(bytes).toString("hex");
}

type ColumnOf<Table extends SQLiteTable> = Table["_"]["columns"][keyof Table["_"]["columns"]];
type Json<Value> = Value extends bigint ? string : Value extends boolean ? number : Value;

/**
 * Columns of a table by their names in SQL, in values that JSON can carry: an amount is decimal
 * text, a flag is 0 or 1. Rows have this form where a read and a stored JSON text share it.
 */
export type JsonRow<Table extends SQLiteTable, Name extends ColumnOf<Table>["_"]["name"]> = {
  readonly [Key in Name]: Json<GetColumnData<Extract<ColumnOf<Table>, { _: { name: Key } }>>>;
};
