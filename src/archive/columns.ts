/**
 * Rows as columns. Values of one column resemble each other, so that small differences remain and
 * compress well.
 */
import { type ByteReader, type ByteWriter, fromHex, SealMalformed, toHex } from "./bytes.ts";

export type Column<Value> = {
  readonly write: (writer: ByteWriter, values: readonly Value[], table: Written) => void;
  readonly read: (reader: ByteReader, rows: number, table: Written) => Value[];
};

/** The ids of the block, and the columns of the table that come before. */
type Written = {
  readonly ids: readonly string[];
  readonly positions: ReadonlyMap<string, number>;
  readonly earlier: ReadonlyMap<string, readonly unknown[]>;
};

// The values of a column are checked by its own functions, so a table may hold any columns.
type AnyColumn = Column<never> | Column<number> | Column<bigint> | Column<string> | OrNull;
type OrNull = Column<string | null> | Column<number | null> | Column<bigint | null>;
export type Columns = Readonly<Record<string, AnyColumn>>;
export type RowOf<Table extends Columns> = {
  readonly [Name in keyof Table]: Table[Name] extends Column<infer Value> ? Value : never;
};

/** Numbers of any order. */
export const number: Column<number> = {
  write: (writer, values) => values.forEach((value) => writer.int(value)),
  read: (reader, rows) => times(rows, () => reader.int()),
};

/** Numbers close to those of the row before: positions and instants. */
export const rising: Column<number> = {
  write: (writer, values) =>
    values.forEach((value, row) => writer.int(value - (values[row - 1] ?? 0))),
  read: (reader, rows) => {
    let value = 0;
    return times(rows, () => (value = safe(value + reader.int())));
  },
};

/** Numbers close to another column of the same row, which comes before. */
export function near(other: string): Column<number> {
  return {
    write: (writer, values, { earlier }) => {
      const base = numbersOf(earlier, other);
      values.forEach((value, row) => writer.int(value - (base[row] ?? 0)));
    },
    read: (reader, rows, { earlier }) => {
      const base = numbersOf(earlier, other);
      return times(rows, (row) => safe((base[row] ?? 0) + reader.int()));
    },
  };
}

export const numberOrNull: Column<number | null> = {
  write: (writer, values) =>
    values.forEach((value) => {
      writer.uint(value === null ? 0 : 1);
      if (value !== null) writer.int(value);
    }),
  read: (reader, rows) => times(rows, () => (reader.uint() === 0 ? null : reader.int())),
};

export const amount: Column<bigint> = {
  write: (writer, values) => values.forEach((value) => writer.bigint(value)),
  read: (reader, rows) => times(rows, () => reader.bigint()),
};

export const amountOrNull: Column<bigint | null> = {
  write: (writer, values) =>
    values.forEach((value) => {
      writer.uint(value === null ? 0 : 1);
      if (value !== null) writer.bigint(value);
    }),
  read: (reader, rows) => times(rows, () => (reader.uint() === 0 ? null : reader.bigint())),
};

/** Texts of which there are few different ones. */
export const name: Column<string> = {
  write: (writer, values, table) => nameOrNull.write(writer, values, table),
  read: (reader, rows, table) =>
    nameOrNull.read(reader, rows, table).map((value) => {
      if (value === null) throw new SealMalformed("a name is missing");
      return value;
    }),
};

export const nameOrNull: Column<string | null> = {
  write: (writer, values) => {
    const names = [...new Set(values.filter((value) => value !== null))];
    const positions = new Map(names.map((text, position) => [text, position]));
    writer.uint(names.length);
    names.forEach((text) => writer.text(text));
    values.forEach((value) => writer.uint(value === null ? 0 : (positions.get(value) ?? -1) + 1));
  },
  read: (reader, rows) => {
    const names = times(reader.count(), () => reader.text());
    return times(rows, () => {
      const position = reader.uint();
      if (position === 0) return null;
      const text = names[position - 1];
      if (text === undefined) throw new SealMalformed("a name is not in its list");
      return text;
    });
  },
};

/** Ids of 16 bytes in hexadecimal. The block lists each of them once. */
export const id: Column<string> = {
  write: (writer, values, table) => idOrNull.write(writer, values, table),
  read: (reader, rows, table) =>
    idOrNull.read(reader, rows, table).map((value) => {
      if (value === null) throw new SealMalformed("an id is missing");
      return value;
    }),
};

/** Rows are often in the order of their ids, so the next id is often the next of the list. */
export const idOrNull: Column<string | null> = {
  write: (writer, values, { positions }) => {
    let last = 0;
    for (const value of values) {
      const position = value === null ? 0 : (positions.get(value) ?? -1) + 1;
      writer.int(position - last);
      last = position;
    }
  },
  read: (reader, rows, { ids }) => {
    let position = 0;
    return times(rows, () => {
      position = safe(position + reader.int());
      if (position === 0) return null;
      const value = ids[position - 1];
      if (value === undefined) throw new SealMalformed("an id is not in the block's list");
      return value;
    });
  },
};

/** D1 returns neither bytes nor large integers exactly, so these are read as text. */
export const ID_COLUMNS: readonly unknown[] = [id, idOrNull];
export const AMOUNT_COLUMNS: readonly unknown[] = [amount, amountOrNull];

/** Adds the ids that these rows contain to a set. */
export function collectIds<Table extends Columns>(
  columns: Table,
  rows: readonly RowOf<Table>[],
  ids: Set<string>,
): void {
  for (const [column, type] of Object.entries(columns)) {
    if (!ID_COLUMNS.includes(type)) continue;
    for (const row of rows) if (typeof row[column] === "string") ids.add(row[column]);
  }
}

const ID_BYTES = 16;
/** The milliseconds of a UUID v7. */
const TIME_BYTES = 6;

/** A sorted list of ids. Their times differ little; the rest of each is random. */
export function writeIds(writer: ByteWriter, ids: readonly string[]): void {
  const bytes = ids.map(fromHex);
  if (bytes.some((one) => one.length !== ID_BYTES)) throw new RangeError("an id has 16 bytes");
  writer.uint(ids.length);
  rising.write(writer, bytes.map(timeOf), NOTHING_EARLIER);
  bytes.forEach((one) => writer.raw(one.subarray(TIME_BYTES)));
}

export function readIds(reader: ByteReader): string[] {
  const instants = rising.read(reader, reader.count(), NOTHING_EARLIER);
  return instants.map((time) => {
    if (time < 0 || time >= 2 ** (8 * TIME_BYTES)) throw new SealMalformed("an id has no time");
    return (
      time.toString(16).padStart(2 * TIME_BYTES, "0") + toHex(reader.raw(ID_BYTES - TIME_BYTES))
    );
  });
}

const NOTHING_EARLIER: Written = { ids: [], positions: new Map(), earlier: new Map() };

function timeOf(idBytes: Uint8Array): number {
  return Number.parseInt(toHex(idBytes.subarray(0, TIME_BYTES)), 16);
}

export function writeTable<Table extends Columns>(
  writer: ByteWriter,
  columns: Table,
  rows: readonly RowOf<Table>[],
  ids: readonly string[],
): void {
  const earlier = new Map<string, readonly unknown[]>();
  const positions = new Map(ids.map((value, position) => [value, position]));
  writer.uint(rows.length);
  for (const [column, type] of Object.entries(columns)) {
    const values = rows.map((row) => row[column]);
    columnOf(type).write(writer, values, { ids, positions, earlier });
    earlier.set(column, values);
  }
}

export function readTable<Table extends Columns>(
  reader: ByteReader,
  columns: Table,
  ids: readonly string[],
): RowOf<Table>[] {
  const rows = reader.count();
  const earlier = new Map<string, readonly unknown[]>();
  for (const [column, type] of Object.entries(columns))
    earlier.set(column, columnOf(type).read(reader, rows, { ids, positions: new Map(), earlier }));
  const made: Record<string, unknown>[] = times(rows, () => ({}));
  for (const [column, values] of earlier)
    made.forEach((one, row) => {
      one[column] = values[row];
    });
  // Safe cast: each column has just returned one value of its own type for each row.
  return made as RowOf<Table>[];
}

/** Safe cast: `RowOf` ties the values of a row to the types of their columns. */
function columnOf(type: AnyColumn): Column<unknown> {
  return type as unknown as Column<unknown>;
}

/** Safe cast: `near` names a column of numbers of the same table. */
function numbersOf(earlier: Written["earlier"], column: string): readonly number[] {
  return (earlier.get(column) ?? []) as readonly number[];
}

function times<Value>(count: number, make: (index: number) => Value): Value[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

function safe(value: number): number {
  if (!Number.isSafeInteger(value)) throw new SealMalformed("a number is too large");
  return value;
}
