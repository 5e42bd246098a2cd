/**
 * How events are stored. Each domain has the forms of its events (rfq/rfq-event-forms.ts).
 *
 * A run of events (`event_runs`, migrations/0005_streams.sql) has two parts: `ids`, the ids of its
 * events as bytes, one after the other, and `events`, a JSON array with an array for each event:
 *
 *   [place, code, ...values]
 *
 * `place` is where the event's ids begin in `ids`, in units of 16 bytes, counted from the place of
 * the run's first event. `code` stands for the type and the form below. The values have no names
 * and end with the last that is not null. What an audience may not see is null. Written by
 * `storedEvent`, read by `readEvent` and, in SQL, by `eventColumn`.
 *
 * A later column is appended to `values`; it is null in events that were stored before. A later id
 * is such a column, as hex text. Events are kept for two hours. After that a form may change in any
 * way, but under a new code.
 */
import { atom, type Columns, type Expr, expr, join, jsonArray, literal, raw, sql } from "./sql.ts";
import type { Sql } from "./sql.ts";
import { venueOf } from "./venues.ts";

export type EventForm = {
  /** The types that are stored in this form, each with its code, which no other type has. */
  readonly codes: Readonly<Record<string, number>>;
  /** Columns of ids with their lengths in bytes, which are multiples of 16. Never null. */
  readonly ids: Readonly<Record<string, number>>;
  readonly values: readonly string[];
};

type Name<Form extends EventForm> = (keyof Form["ids"] & string) | Form["values"][number];

/**
 * Columns of an event's source (`announce`): `ids` as hex text, and `body`, which is the JSON array
 * of its code and values without the nulls at its end and without its last bracket. `type` is
 * one of the form's types, or SQL for one of them.
 */
export function storedEvent<Form extends EventForm>(
  form: Form,
  type: (keyof Form["codes"] & string) | Expr,
  columns: Columns<Name<Form>>,
): Sql {
  const own: Columns = columns;
  const of = (name: string): Expr => {
    const column = own[name];
    if (column === undefined) throw new Error(`an event has no column ${name}`);
    return column;
  };
  const ids = Object.keys(form.ids).map(of);
  const body = jsonArray([codeOf(form, type), ...form.values.map(of)]);
  // No value ends in one of these characters: texts end in a quotation mark, numbers in a digit.
  return sql`${ids.length === 0 ? raw("''") : join(ids, " || ")} AS ids,
    rtrim(${body}, ',nul]') AS body`;
}

function codeOf(form: EventForm, type: string | Expr): Expr {
  if (typeof type === "string") return literal(form.codes[type] ?? Number.NaN);
  const codes = Object.entries(form.codes).map(([name, code]) => `WHEN '${name}' THEN ${code}`);
  return expr`CASE ${type} ${raw(codes.join(" "))} END`;
}

/** An event as the view `stream_events` shows it. */
export type StoredEvent = {
  /** Upper-case hex. More than the event's own may follow. */
  readonly ids: string;
  readonly body: string;
};

/** Types and forms by their codes. */
export type EventKinds = ReadonlyMap<number, { readonly type: string; readonly form: EventForm }>;

export function kindsOf(...forms: readonly EventForm[]): EventKinds {
  return new Map(
    forms.flatMap((form) =>
      Object.entries(form.codes).map(([type, code]) => [code, { type, form }] as const),
    ),
  );
}

/** The columns of an event. Ids are upper-case hex. */
export type EventRow = Readonly<Record<string, unknown>>;

export function readEvent(
  kinds: EventKinds,
  { ids, body }: StoredEvent,
): { type: string; row: EventRow } {
  // Safe cast: `storedEvent` and `announce` write an array.
  const [, code, ...values] = JSON.parse(body) as unknown[];
  const kind = kinds.get(Number(code));
  if (kind === undefined) throw new Error(`an event has the unknown code ${String(code)}`);
  const { type, form } = kind;
  const row: Record<string, unknown> = {};
  let from = 0;
  for (const [name, bytes] of Object.entries(form.ids)) {
    row[name] = ids.slice(from, from + 2 * bytes);
    from += 2 * bytes;
  }
  for (const [index, name] of form.values.entries()) row[name] = values[index] ?? null;
  return { type, row };
}

/** The codes of all types that begin so, such as `quote.`. */
export function codesOf(kinds: EventKinds, prefix: string): number[] {
  return [...kinds].filter(([, { type }]) => type.startsWith(prefix)).map(([code]) => code);
}

/** A column of the events `e` of `stream_events` with these codes. NULL if an event has none. */
export function eventColumn(kinds: EventKinds, name: string, codes: readonly number[]): Expr {
  const cases = codes.flatMap((code) => {
    const form = kinds.get(code)?.form;
    const column = form === undefined ? undefined : columnOf(form, name);
    return column === undefined ? [] : [sql`WHEN ${literal(code)} THEN ${column}`];
  });
  return cases.length === 0 ? atom("NULL") : expr`CASE e.code ${join(cases, " ")} END`;
}

function columnOf(form: EventForm, name: string): Expr | undefined {
  const index = form.values.indexOf(name);
  if (index >= 0) return atom(`(e.body ->> ${index + 2})`);
  let from = 1;
  for (const [id, bytes] of Object.entries(form.ids)) {
    if (id === name) return atom(`substr(e.ids, ${from}, ${2 * bytes})`);
    from += 2 * bytes;
  }
  const [venue, assetId] = [columnOfAsset(form, "venue"), columnOfAsset(form, "asset_id")];
  return name === "asset" && venue !== undefined && assetId !== undefined
    ? expr`${venue} || ':0x' || coalesce(nullif(ltrim(lower(${assetId}), '0'), ''), '0')`
    : undefined;
}

function columnOfAsset(form: EventForm, name: "venue" | "asset_id"): Expr | undefined {
  return form.values.includes(name) || name in form.ids ? columnOf(form, name) : undefined;
}

/** An outcome token's key (`<venue>:<asset_id>`) in a column, as columns of an event. */
export function storedAsset(column: string): Columns<"venue" | "asset_id"> {
  return {
    venue: venueOf(column),
    asset_id: atom(
      `substr(hex(zeroblob(32)) || substr(${column}, instr(${column}, ':') + 3), -64)`,
    ),
  };
}

/** The key that `storedAsset` has taken apart. */
export function readAsset({ venue, asset_id }: { venue: string; asset_id: string }): string {
  return `${venue}:${readAssetId(asset_id)}`;
}

/** The id as it is on the wire. */
export function readAssetId(hex: string): string {
  return `0x${BigInt(`0x${hex}`).toString(16)}`;
}
