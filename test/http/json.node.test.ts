import fc from "fast-check";
import { expect, it } from "vitest";
import {
  JsonNumber,
  parseJson,
  parseJsonInteger,
  parseJsonObject,
  stableText,
} from "../../src/http/json.ts";
import { type FieldError, Problem } from "../../src/platform/problem.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

function faultsOf(work: () => unknown): readonly FieldError[] {
  try {
    work();
  } catch (error) {
    if (error instanceof Problem) return error.data.errors ?? [];
    throw error;
  }
  throw new Error("nothing was refused");
}

/** A JSON number as anyone may write it, together with its exact value where it is an integer. */
const jsonNumber = fc
  .record({
    sign: fc.constantFrom("", "-"),
    digits: fc.bigInt({ min: 0n, max: 10n ** 90n }),
    fraction: fc.option(fc.stringMatching(/^[0-9]{1,30}$/)),
    exponent: fc.option(fc.integer({ min: -40, max: 120 })),
  })
  .map(
    ({ sign, digits, fraction, exponent }) =>
      `${sign}${digits}${fraction === null ? "" : `.${fraction}`}${exponent === null ? "" : `e${exponent}`}`,
  );

it("a JSON number of any size keeps its source text", () => {
  fc.assert(
    fc.property(jsonNumber, (source) => {
      expect(parseJsonObject(bytes(`{"n":${source}}`), [])["n"]).toEqual(new JsonNumber(source));
    }),
  );
});

it("an integer is read exactly in every spelling, and what is none is refused", () => {
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

it("a number that would expand to gigabytes is refused at once", () => {
  const before = performance.now();
  expect(parseJsonInteger("1e999999999")).toBeUndefined();
  expect(parseJsonInteger(`1${"0".repeat(60_000)}1`)).toBeUndefined();
  expect(parseJsonInteger(`1e${"9".repeat(60_000)}`)).toBeUndefined();
  expect(parseJsonInteger(`1.${"0".repeat(60_000)}`)).toBe(1n);
  expect(performance.now() - before).toBeLessThan(200);
});

it("parsing agrees with JSON.parse on everything but numbers", () => {
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

it("a repeated key is refused and named, however it is escaped, at any depth", () => {
  expect(faultsOf(() => parseJson('{"price":1,"\\u0070rice":2}'))).toEqual([
    { path: "body.price", message: "is given twice" },
  ]);
  expect(faultsOf(() => parseJson('{"a":[{"b":1},{"c":1,"c":{}}]}'))).toEqual([
    { path: "body.a.1.c", message: "is given twice" },
  ]);
  expect(parseJson('{"a":{"x":1},"b":{"x":1},"c":"a:{\\"a\\":1}"}')).toBeTruthy();
});

it("__proto__ is no field and reaches nothing", () => {
  const faults: FieldError[] = [];
  const value = parseJsonObject(bytes('{"__proto__":{"admin":true},"a":"b"}'), faults);
  expect(faults).toEqual([{ path: "body.__proto__", message: "is not a field" }]);
  expect(value["admin"]).toBeUndefined();
  expect(Object.keys(value)).toEqual(["a"]);
});

it.each([
  ["bytes that are not UTF-8", new Uint8Array([0x7b, 0xff, 0x7d])],
  ["a byte order mark", new Uint8Array([0xef, 0xbb, 0xbf, 0x7b, 0x7d])],
  ["a lone surrogate", bytes('{"a":"\\ud800"}')],
  ["an array", bytes("[]")],
  ["a number", bytes("1")],
  ["null", bytes("null")],
  ["a comment", bytes("{/**/}")],
  ["a trailing comma", bytes('{"a":1,}')],
  ["white space alone", bytes(" ")],
  ["17 levels", bytes(`{"a":${"[".repeat(17)}${"]".repeat(17)}}`)],
  ["32 000 levels", bytes(`{"a":${"[".repeat(32_000)}${"]".repeat(32_000)}}`)],
])("%s is refused as the body", (_name, body) => {
  expect(faultsOf(() => parseJsonObject(body, []))[0]?.path).toBe("body");
});

it("no body at all is the empty object", () => {
  expect(parseJsonObject(new Uint8Array(), [])).toEqual({});
});

it("no body of 64 KiB takes long to refuse", () => {
  const slow = ['{"', '"\\"', '{"a":1,', '"', "\\", "[{", `"${" ".repeat(50)}`, '{"a" ', "1"].map(
    (part) => part.repeat(Math.floor(65_536 / part.length)),
  );
  for (const text of slow) {
    const before = performance.now();
    faultsOf(() => parseJsonObject(bytes(text), []));
    expect(performance.now() - before).toBeLessThan(300);
  }
});

it("terms read the same whatever the order of their keys, and differently for different values", () => {
  expect(stableText({ b: 1n, a: [true, null] })).toBe(stableText({ a: [true, null], b: 1n }));
  expect(stableText({ a: 1n })).not.toBe(stableText({ a: "1" }));
  expect(stableText({ a: undefined })).toBe(stableText({}));
});
