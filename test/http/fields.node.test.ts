import fc from "fast-check";
import { expect, it } from "vitest";
import * as z from "zod";
import { address, assetId, price, u256 } from "../../src/assets/asset-fields.ts";
import { encodeCursor, pageOf, timeIdPage } from "../../src/http/cursor.ts";
import { filterOf } from "../../src/custody/list-entries.ts";
import {
  boolean,
  boundedText,
  integer,
  NANOS_PER_MS,
  parseTimestamp,
  preciseTimestamp,
  QueryText,
  uuidField,
} from "../../src/http/fields.ts";
import { ipAllowed, networkOf, parseIpRange } from "../../src/http/ip-range.ts";
import { JsonNumber } from "../../src/http/json.ts";
import { mergeFields, placeOf, queryFields, validate } from "../../src/http/request.ts";
import { foldText, normalText } from "../../src/platform/normal-text.ts";
import type { FieldError } from "../../src/platform/problem.ts";

it("parses any UTC offset, also with an unescaped +", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 4_102_444_800_000 }),
      fc.integer({ min: -14 * 60, max: 14 * 60 }),
      (at, offset) => {
        const sign = offset < 0 ? "-" : "+";
        const clock = new Date(Math.abs(offset) * 60_000).toISOString().slice(11, 16);
        const local = new Date(at + offset * 60_000).toISOString().replace("Z", `${sign}${clock}`);
        expect(parseTimestamp(local)).toBe(at);
        expect(parseTimestamp(local.replace("+", " "))).toBe(at);
        expect(parseTimestamp(new Date(at).toISOString())).toBe(at);
      },
    ),
  );
});

it.each([
  "",
  "2026-11-20",
  "2026-11-20T10:00:00",
  "2026-02-30T00:00:00Z",
  "2026-13-01T00:00:00Z",
  "2026-11-20T24:00:00Z",
  "2026-11-20T10:00:60Z",
  "1795226700732",
  "now",
  "2026-11-20T10:00:00+2",
  "9999-12-31T23:59:59-23:59",
  "0000-01-01T00:00:00+00:01",
])("rejects %j as a date-time", (given) => {
  expect(parseTimestamp(given)).toBeUndefined();
});

it("compares range bounds before rounding to milliseconds", () => {
  expect(preciseTimestamp.parse("2026-11-20T10:00:00.836999001Z") % NANOS_PER_MS).toBe(999_001n);
  expect(preciseTimestamp.parse("2026-11-20T10:00:00.8Z")).toBe(
    BigInt(Date.UTC(2026, 10, 20, 10, 0, 0, 800)) * NANOS_PER_MS,
  );
  expect(filterOf({ from: 5_000_001n, to: 5_999_999n }, [])).toMatchObject({ from: 6, to: 5 });
  expect(filterOf({ from: 5_000_000n, to: 5_000_000n }, [])).toMatchObject({ from: 5, to: 5 });
});

it("accepts leading zeros in a U256 but no value above 2^256 − 1", () => {
  expect(u256.parse(`0x${"0".repeat(500)}1`)).toBe(1n);
  expect(u256.parse(`${"0".repeat(500)}7`)).toBe(7n);
  expect(u256.parse(`0x${"f".repeat(64)}`)).toBe(2n ** 256n - 1n);
  expect(u256.safeParse(`1${"0".repeat(78)}`).success).toBe(false);
});

it("normalises leading zeros and case of asset ids", () => {
  expect(assetId.parse("0x00AB")).toBe("0xab");
  expect(assetId.parse("0x0")).toBe("0x0");
  expect(assetId.safeParse(`0x${"f".repeat(65)}`).success).toBe(false);
  expect(assetId.safeParse("ab").success).toBe(false);
  expect(assetId.safeParse(new JsonNumber("171")).success).toBe(false);
});

it("checks the EIP-55 checksum of mixed-case addresses", () => {
  const good = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
  expect(address.parse(good)).toBe(good);
  expect(address.parse(good.toLowerCase())).toBe(good);
  expect(address.safeParse(good.replace("aA", "Aa")).success).toBe(false);
});

it("accepts prices from 1 to 1000000 as number or text", () => {
  expect(price.parse(new JsonNumber("650000"))).toBe(650_000);
  expect(price.parse("650000")).toBe(650_000);
  expect(price.parse(new JsonNumber("6.5e5"))).toBe(650_000);
  for (const bad of ["0", "1000001", "-1", "0.5", "1e3", "0x1", ""])
    expect(price.safeParse(bad).success).toBe(false);
  for (const bad of ["0", "1000001", "-1", "0.5", "1.0000000000000000000000001"])
    expect(price.safeParse(new JsonNumber(bad)).success).toBe(false);
  expect(u256.safeParse(true).success).toBe(false);
});

it("accepts numbers and booleans as text only in a query", () => {
  expect([
    integer(1, 5).parse(new JsonNumber("5")),
    integer(1, 5).parse(new QueryText("5")),
  ]).toEqual([5, 5]);
  expect([
    boolean.parse(false),
    boolean.parse(new QueryText("false")),
    boolean.parse(new QueryText("true")),
  ]).toEqual([false, false, true]);
  for (const bad of ["5", true, null, new QueryText("5.0"), new JsonNumber("6")])
    expect(integer(1, 5).safeParse(bad).success).toBe(false);
  for (const bad of [
    "true",
    "false",
    new JsonNumber("1"),
    null,
    new QueryText("1"),
    new QueryText("True"),
  ])
    expect(boolean.safeParse(bad).success).toBe(false);
  expect([boundedText(1, 4).parse("5"), boundedText(1, 4).parse(new QueryText("5"))]).toEqual([
    "5",
    "5",
  ]);
  for (const bad of [new JsonNumber("5"), true, null, ["5"], "a\u0007", "a\nb", " \u00a0"])
    expect(boundedText(1, 4).safeParse(bad).success).toBe(false);
  expect([
    u256.parse("0x10"),
    u256.parse(new JsonNumber("16")),
    u256.parse(new QueryText("16")),
  ]).toEqual([16n, 16n, 16n]);
});

it("has one spelling for texts that look the same", () => {
  const text = boundedText(1, 20);
  for (const same of ["Émile  Zola", " Émile Zola", "Émile\u00a0Zola\u3000", "E\u0301mile Ｚola"])
    expect(text.parse(same)).toBe("Émile Zola");
  const hidden = "200b 202e 2028 2029 3164 ffa0 115f fe0f 2800 034f 00ad feff e0041 d800 e000 ffff";
  for (const letter of hidden.split(" ")) {
    const given = `a${String.fromCodePoint(parseInt(letter, 16))}b`;
    expect([letter, text.safeParse(given).success]).toEqual([letter, false]);
  }
  for (const [one, other] of ["ÉMILE émile", "Straße STRASSE", "ΟΔΟΣ οδος", "K \u212a"].map(
    (pair) => pair.split(" "),
  ))
    expect(foldText(one ?? "")).toBe(foldText(other ?? ""));
});

it("normalises a text once and for all", () => {
  // fast-check takes seconds to prepare `unit: "binary"`.
  const codePoint = fc.integer({ min: 0, max: 0x10ffff });
  fc.assert(
    fc.property(fc.array(codePoint, { maxLength: 20 }), (points) => {
      const given = String.fromCodePoint(...points);
      const text = normalText(given);
      if (text !== undefined) expect(normalText(text)).toBe(text);
      expect(foldText(foldText(given))).toBe(foldText(given));
    }),
    { numRuns: 2_000 },
  );
});

it("reports all field errors together, without the values", () => {
  const errors: FieldError[] = [];
  const schema = z.strictObject({
    request_id: uuidField,
    price,
    note: boundedText(1, 4),
    flag: boolean.optional(),
    n: integer(1, 5).optional(),
  });
  validate(
    schema,
    { price: new JsonNumber("7e9"), note: "s3cret!", flag: "yes", n: "9", typo: 1 },
    "body",
    errors,
  );
  expect(errors.map((error) => error.path).toSorted()).toEqual([
    "body.flag",
    "body.n",
    "body.note",
    "body.price",
    "body.request_id",
    "body.typo",
  ]);
  expect(errors.find((error) => error.path === "body.request_id")?.message).toBe("is required");
  expect(JSON.stringify(errors)).not.toContain("s3cret");
});

it("rejects a duplicate query parameter by name", () => {
  const errors: FieldError[] = [];
  queryFields("http://h/a?x=1&y=2&x=1", errors);
  expect(errors).toEqual([{ path: "query.x", message: "duplicate parameter" }]);
});

it("compares a DELETE field in query and body by value", () => {
  const schema = z.strictObject({ request_id: uuidField, asset_id: assetId.optional() });
  const id = "0192f6a0-0000-7000-8000-00000000000a";
  const errors: FieldError[] = [];
  mergeFields(
    schema,
    { request_id: id, asset_id: "0xAB" },
    { request_id: id.toUpperCase(), asset_id: "0x00ab" },
    errors,
  );
  expect(errors).toEqual([]);
  mergeFields(schema, { request_id: id }, { request_id: id.replace("a", "b") }, errors);
  expect(errors.map((error) => error.path)).toEqual(["body.request_id"]);
});

const ID = "0192f6a0-0000-7000-8000-00000000000a";
it.each([
  ["invalid in the query", "id=x", { id: ID }, ["query.id"]],
  ["invalid in the body", `id=${ID}`, { id: new JsonNumber("5") }, ["body.id"]],
  ["invalid in both", "id=x", { id: "y" }, ["query.id", "body.id"]],
  ["missing from a query", "n=1", {}, ["query.id"]],
  ["missing from a body", "", { n: new JsonNumber("1") }, ["body.id"]],
  ["empty request", "", {}, ["query.id"]],
  ["unknown fields", `id=${ID}&x=1`, { y: "1" }, ["query.x", "body.y"]],
])("reports where a DELETE field is: %s", (_case, target, body, places) => {
  const schema = z.strictObject({ id: uuidField, n: integer(1, 9).optional() });
  const errors: FieldError[] = [];
  const query = queryFields(`http://h/a?${target}`, errors);
  const merged = mergeFields(schema, query, body, errors);
  validate(schema, merged, (name) => placeOf(name, query, body), errors);
  expect(errors.map((error) => error.path)).toEqual(places);
});

it("pages skip and repeat nothing; only the last has no cursor", () => {
  const page = z.strictObject(timeIdPage);
  fc.assert(
    fc.property(
      fc.array(fc.nat(5), { maxLength: 30 }),
      fc.integer({ min: 1, max: 7 }),
      (times, limit) => {
        const rows = times.map((at, index) => ({
          at,
          id: `00000000-0000-7000-8000-${String(index).padStart(12, "0")}`,
        }));
        rows.sort((a, b) => b.at - a.at || b.id.localeCompare(a.id));
        const seen: typeof rows = [];
        let cursor: string | null = null;
        do {
          const query = page.parse(
            queryFields(
              `http://h/a?limit=${limit}${cursor === null ? "" : `&last_cursor=${cursor}`}`,
              [],
            ),
          );
          const after = query.last_cursor?.position;
          const rest = rows.filter(
            (row) =>
              after === undefined ||
              row.at < after.at ||
              (row.at === after.at && row.id < after.id),
          );
          const result: { items: typeof rows; next_cursor: string | null } = pageOf(
            query,
            rest.slice(0, limit + 1),
            (row) => row,
            (row) => row,
          );
          expect(result.next_cursor === null).toBe(rest.length <= limit);
          seen.push(...result.items);
          cursor = result.next_cursor;
        } while (cursor !== null);
        expect(seen).toEqual(rows);
      },
    ),
  );
});

it("handles limit=0, caps the limit at 500 and rejects foreign cursors", () => {
  const page = z.strictObject(timeIdPage);
  const read = (query: string) => queryFields(`http://h/a?${query}`, []);
  const cursor = encodeCursor({ at: 5, id: "00000000-0000-7000-8000-000000000000" });
  expect(
    pageOf(
      page.parse(read(`limit=0&last_cursor=${cursor}`)),
      [1],
      (row) => row,
      () => [],
    ),
  ).toEqual({ items: [], next_cursor: cursor });
  expect(
    pageOf(
      page.parse(read("limit=0")),
      [],
      (row) => row,
      () => [],
    ),
  ).toEqual({ items: [], next_cursor: null });
  expect(page.parse(read("")).limit).toBe(50);
  expect(page.parse(read("limit=4294967295")).limit).toBe(500);
  for (const limit of ["-1", "4294967296", "1.5", "", "x"])
    expect(page.safeParse(read(`limit=${limit}`)).success).toBe(false);
  for (const bad of ["", "!", "e30", encodeCursor([1]), encodeCursor(["1", "x"])])
    expect(page.safeParse(read(`last_cursor=${bad}`)).success).toBe(false);
});

it("compares IP addresses independently of their spelling", () => {
  expect(ipAllowed("192.0.2.7", ["192.0.2.0/24"])).toBe(true);
  expect(ipAllowed("::ffff:192.0.2.7", ["192.0.2.7"])).toBe(true);
  expect(ipAllowed("192.0.3.7", ["192.0.2.0/24"])).toBe(false);
  expect(ipAllowed("2001:DB8:0:0:0:0:0:1", ["2001:db8::1"])).toBe(true);
  expect(ipAllowed("2001:db8:1::1", ["2001:db8::/48"])).toBe(false);
  expect(ipAllowed("8.8.8.8", ["0.0.0.0/0"])).toBe(true);
  expect(ipAllowed("2001:db8::1", ["0.0.0.0/0"])).toBe(false);
  expect(ipAllowed(undefined, ["0.0.0.0/0"])).toBe(false);
  expect(ipAllowed("anything", null)).toBe(true);
  for (const bad of [
    "",
    "1.2.3",
    "1.2.3.256",
    "01.2.3.4",
    "1.2.3.4/33",
    "1.2.3.4/8",
    "::/129",
    ":::",
    "1::2::3",
    "12345::",
    "1.2.3.4/",
    "fe80::1%eth0",
  ]) {
    expect(parseIpRange(bad)).toBeUndefined();
  }
  expect(networkOf("2001:db8::1")).toBe(networkOf("2001:db8::ffff"));
  expect(networkOf("192.0.2.1")).not.toBe(networkOf("192.0.2.2"));
});
