/** Rows as JSON lists by column name, so unknown columns are ignored and missing ones are null. */

/** The bytes are not a sealed object as this service writes it. */
export class SealMalformed extends Error {
  constructor(what: string) {
    super(`malformed seal: ${what}`);
    this.name = "SealMalformed";
  }
}

export type Column<Value> = {
  /** D1 returns neither bytes nor large integers exactly, so these are read as text. */
  readonly readAs: "value" | "hex" | "text";
  /** The value of what JSON contains; undefined if it cannot be one. */
  readonly read: (stored: unknown) => Value | undefined;
};

// Each column checks its own values, so a table may have any of them.
export type TextColumns = Readonly<Record<string, Column<unknown>>>;
export type TextRowOf<Table extends TextColumns> = {
  readonly [Name in keyof Table]: Table[Name] extends Column<infer Value> ? Value : never;
};

export const number: Column<number> = {
  readAs: "value",
  read: (stored) => (Number.isSafeInteger(stored) ? Number(stored) : undefined),
};

/** An amount has at most 256 bits. In JSON it is decimal text, because its numbers are floats. */
const AMOUNT = /^-?\d{1,78}$/;

export const amount: Column<bigint> = {
  readAs: "text",
  read: (stored) =>
    typeof stored === "string" && AMOUNT.test(stored) ? BigInt(stored) : undefined,
};

export const text: Column<string> = {
  readAs: "value",
  read: (stored) => (typeof stored === "string" ? stored : undefined),
};

/** Bytes in lower-case hexadecimal: ids, the names of owners, and hashes. */
export const hex: Column<string> = {
  readAs: "hex",
  read: (stored) =>
    typeof stored === "string" && /^([0-9a-f]{2})+$/.test(stored) ? stored : undefined,
};

export function orNull<Value>({ readAs, read }: Column<Value>): Column<Value | null> {
  return { readAs, read: (stored) => (stored === null ? null : read(stored)) };
}

export function writeTable(
  columns: TextColumns,
  rows: readonly Readonly<Record<string, unknown>>[],
): string {
  const lists = Object.keys(columns).map((column) => {
    const values = rows.map((row) => row[column]);
    return [column, values.map((value) => (typeof value === "bigint" ? String(value) : value))];
  });
  return JSON.stringify(Object.fromEntries(lists));
}

/** Throws `SealMalformed` unless each row has a value of its own type in each column. */
export function readTable<Table extends TextColumns>(
  columns: Table,
  json: string,
): TextRowOf<Table>[] {
  const stored = parse(json);
  const known = Object.keys(columns).find((column) => stored.has(column)) ?? "";
  const made = Array.from(stored.get(known) ?? [], (): Record<string, unknown> => ({}));
  for (const [column, { read }] of Object.entries(columns)) {
    const list = stored.get(column);
    if (list !== undefined && list.length !== made.length)
      throw new SealMalformed(`${column} has another number of values`);
    made.forEach((row, place) => {
      const value = read(list === undefined ? null : list[place]);
      if (value === undefined) throw new SealMalformed(`${column} has another type`);
      row[column] = value;
    });
  }
  // Safe cast: each column has just returned one value of its own type for each row.
  return made as TextRowOf<Table>[];
}

function parse(json: string): ReadonlyMap<string, readonly unknown[]> {
  let stored: unknown;
  try {
    stored = JSON.parse(json);
  } catch {
    throw new SealMalformed("is not JSON");
  }
  if (typeof stored !== "object" || stored === null) throw new SealMalformed("is no table");
  return new Map(
    Object.entries(stored).map(([column, list]) => {
      if (!Array.isArray(list)) throw new SealMalformed(`${column} is no list`);
      return [column, list];
    }),
  );
}
