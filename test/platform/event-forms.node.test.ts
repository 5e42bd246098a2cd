/** Every event comes out of storage as it went in. */
import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { announce } from "../../src/platform/announce.ts";
import { groupOf } from "../../src/platform/commit.ts";
import {
  codesOf,
  eventColumn,
  type EventForm,
  type EventRow,
  kindsOf,
  readAsset,
  readEvent,
  storedAsset,
  storedEvent,
} from "../../src/platform/event-forms.ts";
import { NOTICE_GIVEN } from "../../src/audit/audit.ts";
import { CUSTODY_FORMS } from "../../src/custody/custody-events.ts";
import { RFQ_FORMS } from "../../src/rfq/rfq-event-forms.ts";
import { type Expr, expr, join, type Sql, sql } from "../../src/platform/sql.ts";
import { migratedDatabase } from "../../scripts/migrations/files.ts";

type Event = { readonly form: EventForm; readonly type: string; readonly row: EventRow };
type Read = Event["row"] & { readonly type: string };

const EVENT_FORMS = [...RFQ_FORMS, ...CUSTODY_FORMS, NOTICE_GIVEN];
const EVENT_KINDS = kindsOf(...EVENT_FORMS);
const KINDS = EVENT_FORMS.flatMap((form) =>
  Object.keys(form.codes).map((type): [string, EventForm] => [type, form]),
);
/** Texts that look like the end of a stored event. */
const TEXTS = ["x", ",null]", "null", '"],[', "", "é😀\u0000", "l]"];

/** Each test leaves it empty. */
const db = migratedDatabase();
beforeEach(() => db.exec("BEGIN"));
afterEach(() => db.exec("ROLLBACK"));

/** A row whose values are all different. Ids and texts depend on `seed`. */
function rowOf(form: EventForm, seed: number, valueOf: (index: number) => unknown): EventRow {
  const ids = Object.entries(form.ids).map(([name, bytes], index) => [
    name,
    (seed * 100 + index)
      .toString(16)
      .toUpperCase()
      .padStart(2 * bytes, "A"),
  ]);
  return Object.fromEntries([...ids, ...form.values.map((name, index) => [name, valueOf(index)])]);
}

function sourceOf({ form, type, row }: Event, ord: number, code: string | Expr = type): Sql {
  const columns = Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      // As a number, if it is one: node:sqlite would bind a REAL.
      typeof value === "number" ? expr`CAST(${value} AS INTEGER)` : expr`${value as string | null}`,
    ]),
  );
  return sql`SELECT 'account:x' AS stream, ${storedEvent(form, code, columns)}, ${ord} AS ord`;
}

function run({ text, params }: Sql) {
  return db.prepare(text).all(...params);
}

/** Writes the events with one batch of each group, as the service does, and reads them. */
function roundTrip(...groups: (readonly Sql[])[]): Read[] {
  for (const sources of groups) {
    const group = groupOf(randomUUID());
    run(sql`INSERT INTO commit_groups (group_id, at, voided)
      VALUES (unhex(${group.id}, '-'), 1764551353797, 0)`);
    for (const statement of announce(group, ...sources)) run(statement);
  }
  return run(sql`SELECT type, ids, body FROM stream_events ORDER BY seq`).map((event) => {
    const stored = { ids: String(event["ids"]), body: String(event["body"]) };
    const { type, row } = readEvent(EVENT_KINDS, stored);
    expect(event["type"]).toBe(type);
    return { type, ...row };
  });
}

describe.each(KINDS)("%s", (type, form) => {
  it.each([
    ["texts", (index: number) => `${TEXTS[index % TEXTS.length]}`],
    ["numbers", (index: number) => index * 1_764_551_353_797],
    ["nulls at the end", (index: number) => (index < 2 ? "x" : null)],
    ["nulls in between", (index: number) => (index % 2 === 0 ? null : 0)],
    ["nulls only", () => null],
  ])("comes back with %s", (_, valueOf) => {
    const row = rowOf(form, 7, valueOf);
    expect(roundTrip([sourceOf({ form, type, row }, 1)])).toEqual([{ type, ...row }]);
    for (const name of Object.keys(row))
      expect(
        run(
          sql`SELECT ${eventColumn(EVENT_KINDS, name, codesOf(EVENT_KINDS, type))} AS value FROM stream_events e`,
        ),
      ).toEqual([{ value: row[name] }]);
  });

  it("has its code by a type that SQL computes", () => {
    const row = rowOf(form, 7, () => "x");
    const [prefix = "", suffix = ""] = type.split(".");
    const computed = expr`${`${prefix}.`} || ${suffix}`;
    expect(roundTrip([sourceOf({ form, type, row }, 1, computed)])).toEqual([{ type, ...row }]);
  });
});

it("keeps the ids of one run apart, and of the runs of a long group", () => {
  const events = Array.from({ length: 600 }, (_, seed): Event => {
    const [type, form] = KINDS[(seed * 5) % KINDS.length] ?? KINDS[0]!;
    return { form, type, row: rowOf(form, seed, (index) => `${seed}-${index}`) };
  });
  const sources = events.map((event, ord) => sourceOf(event, ord));
  const read = roundTrip(
    ...[0, 300].map((from) => [join(sources.slice(from, from + 300), " UNION ALL ")]),
  );
  expect(read).toEqual(events.map(({ type, row }) => ({ type, ...row })));
  expect(run(sql`SELECT last_seq - first_seq + 1 AS n FROM event_runs ORDER BY run_id`)).toEqual(
    [256, 44, 256, 44].map((n) => ({ n })),
  );
});

it("gives each code one type", () => {
  const codes = EVENT_FORMS.flatMap(({ codes: own }) => Object.values(own));
  expect(new Set(codes).size).toBe(codes.length);
});

it.each(["venue_one:0x0", "venue_one:0xab", `v:0x${"f".repeat(64)}`])("takes %s apart", (key) => {
  const { venue, asset_id } = storedAsset("k");
  const [row] = run(sql`SELECT ${venue} AS venue, ${asset_id} AS asset_id
    FROM (SELECT ${key} AS k)`);
  expect(String(row?.["asset_id"])).toHaveLength(64);
  expect(readAsset({ venue: String(row?.["venue"]), asset_id: String(row?.["asset_id"]) })).toBe(
    key,
  );
});
