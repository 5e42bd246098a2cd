import fc from "fast-check";
import { expect, it } from "vitest";
import { JsonNumber, parseJson, parseJsonInteger, parseJsonObject } from "../../src/http/json.ts";
import { type FieldError, Problem } from "../../src/platform/problem.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

function errorsOf(work: () => unknown): readonly FieldError[] {
  try {
    work();
  } catch (error) {
    if (error instanceof Problem) return error.data.errors ?? [];
    throw error;
  }
  throw new Error("nothing was thrown");
}

/** Any valid spelling of a JSON number. */
const jsonNumber = fc
  .record({
    sign: fc.constantFrom("", "-"),
    digits: fc.bigInt({ min: 0n, max: 10n ** 90n }),
    fraction: fc.option(fc.stringMatching(/^[0-9]{1,30}$/)),
    exponent: fc.option(fc.integer({ min: -40, max: 120 })),
  })
  .map(({ sign, digits, fraction, exponent }) => {
    const decimals = fraction === null ? "" : `.${fraction}`;
    return `${sign}${digits}${decimals}${exponent === null ? "" : `e${exponent}`}`;
  });

it("keeps the source text of a JSON number of any size", () => {
  fc.assert(
    fc.property(jsonNumber, (source) => {
      expect(parseJsonObject(bytes(`{"n":${source}}`), [])["n"]).toEqual(new JsonNumber(source));
    }),
  );
});

it("parses integers exactly in every spelling and rejects other numbers", () => {
  fc.assert(
    fc.property(jsonNumber, (source) => {
      const [mantissa = "", exponent = "0"] = source.split("e");
      const [whole = "", fraction = ""] = mantissa.replace("-", "").split(".");
      const shift = Number(exponent) - fraction.length;
      const digits = BigInt(whole + fraction);
      const power = 10n ** BigInt(Math.abs(shift));
      const isInteger = shift >= 0 || digits % power === 0n;
      const exact = shift >= 0 ? digits * power : digits / power;
      const expected =
        isInteger && exact.toString().length <= 78
          ? mantissa.startsWith("-")
            ? -exact
            : exact
          : undefined;
      expect(parseJsonInteger(source)).toBe(expected);
    }),
    { numRuns: 1_000 },
  );
});

it("rejects numbers with huge exponents without expanding them", () => {
  const before = performance.now();
  expect(parseJsonInteger("1e999999999")).toBeUndefined();
  expect(parseJsonInteger(`1${"0".repeat(60_000)}1`)).toBeUndefined();
  expect(parseJsonInteger(`1e${"9".repeat(60_000)}`)).toBeUndefined();
  expect(parseJsonInteger(`1.${"0".repeat(60_000)}`)).toBe(1n);
  expect(performance.now() - before).toBeLessThan(200);
});

it("agrees with JSON.parse on everything except numbers", () => {
  fc.assert(
    fc.property(
      fc.dictionary(
        fc.string(),
        fc.oneof(fc.string(), fc.boolean(), fc.constant(null), fc.array(fc.string())),
      ),
      (value) => {
        fc.pre(!Object.hasOwn(value, "__proto__") && JSON.stringify(value).isWellFormed());
        expect(parseJsonObject(bytes(JSON.stringify(value)), [])).toEqual({ ...value });
      },
    ),
  );
});

it("rejects duplicate keys by name, escaped or nested", () => {
  expect(errorsOf(() => parseJson('{"price":1,"\\u0070rice":2}'))).toEqual([
    { path: "body.price", message: "duplicate field" },
  ]);
  expect(errorsOf(() => parseJson('{"a":[{"b":1},{"c":1,"c":{}}]}'))).toEqual([
    { path: "body.a.1.c", message: "duplicate field" },
  ]);
  expect(parseJson('{"a":{"x":1},"b":{"x":1},"c":"a:{\\"a\\":1}"}')).toBeTruthy();
});

it("rejects __proto__ and changes no prototype", () => {
  const errors: FieldError[] = [];
  const value = parseJsonObject(bytes('{"__proto__":{"admin":true},"a":"b"}'), errors);
  expect(errors).toEqual([{ path: "body.__proto__", message: "unknown field" }]);
  expect(value["admin"]).toBeUndefined();
  expect(Object.keys(value)).toEqual(["a"]);
});

it.each([
  ["bytes that are not UTF-8", new Uint8Array([0x7b, 0xff, 0x7d])],
  ["a byte order mark", new Uint8Array([0xef, 0xbb, 0xbf, 0x7b, 0x7d])],
  ["an unpaired surrogate", bytes('{"a":"\\ud800"}')],
  ["an array", bytes("[]")],
  ["a number", bytes("1")],
  ["null", bytes("null")],
  ["a comment", bytes("{/**/}")],
  ["a trailing comma", bytes('{"a":1,}')],
  ["white space alone", bytes(" ")],
  ["17 levels", bytes(`{"a":${"[".repeat(17)}${"]".repeat(17)}}`)],
  ["32 000 levels", bytes(`{"a":${"[".repeat(32_000)}${"]".repeat(32_000)}}`)],
])("rejects %s as a body", (_name, body) => {
  expect(errorsOf(() => parseJsonObject(body, []))[0]?.path).toBe("body");
});

it("names a byte order mark", () => {
  const marked = new Uint8Array([0xef, 0xbb, 0xbf, 0x7b, 0x7d]);
  const error = { path: "body", message: "must not begin with a byte order mark" };
  expect(errorsOf(() => parseJsonObject(marked, []))).toEqual([error]);
});

it("treats an empty body as the empty object", () => {
  expect(parseJsonObject(new Uint8Array(), [])).toEqual({});
});

it("rejects any body of 64 KiB quickly", () => {
  const slow = ['{"', '"\\"', '{"a":1,', '"', "\\", "[{", `"${" ".repeat(50)}`, '{"a" ', "1"].map(
    (part) => part.repeat(Math.floor(65_536 / part.length)),
  );
  for (const text of slow) {
    const before = performance.now();
    errorsOf(() => parseJsonObject(bytes(text), []));
    expect(performance.now() - before).toBeLessThan(300);
  }
});

it("limits the members of an object and the items of a list, with one error", () => {
  const members = (count: number) =>
    `{${Array.from({ length: count }, (_, index) => `"${index}":0`).join(",")}}`;
  const items = (count: number) => `{"a":[${Array.from({ length: count }, () => 0).join(",")}]}`;
  const errors: FieldError[] = [];
  parseJsonObject(bytes(members(64)), errors);
  parseJsonObject(bytes(items(64)), errors);
  expect(errors).toEqual([]);
  expect(errorsOf(() => parseJsonObject(bytes(members(7_500)), []))).toEqual([
    { path: "body", message: "must not have more than 64 fields" },
  ]);
  expect(errorsOf(() => parseJsonObject(bytes(`{"b":${members(65)}}`), []))).toEqual([
    { path: "body.b", message: "must not have more than 64 fields" },
  ]);
  expect(errorsOf(() => parseJsonObject(bytes(items(65)), []))).toEqual([
    { path: "body.a", message: "must not have more than 64 items" },
  ]);
});

it("limits the errors of a text of repeated keys in number and length", () => {
  const name = "k".repeat(100);
  const text = `${`{"${name}":`.repeat(15)}{${Array.from({ length: 64 }, () => '"a":0').join(",")}}${"}".repeat(15)}`;
  const found = errorsOf(() => parseJson(text, "frame"));
  expect(found).toHaveLength(50);
  expect(found.every(({ path }) => path.length <= 161)).toBe(true);
});
