import fc from "fast-check";
import { expect, it } from "vitest";
import { parseU256, toHex, U256_MAX } from "../../src/assets/amount.ts";

const amount = fc.bigInt({ min: 0n, max: U256_MAX });

it("a U256 is read alike from decimal text, hex text of any case and leading zeros, and a JSON number", () => {
  fc.assert(
    fc.property(amount, fc.nat(5), (value, zeros) => {
      const hex = value.toString(16);
      expect(parseU256(`${"0".repeat(zeros)}${value}`, "string")).toBe(value);
      expect(parseU256(`0x${"0".repeat(zeros)}${hex}`, "string")).toBe(value);
      expect(parseU256(`0x${hex.toUpperCase()}`, "string")).toBe(value);
      expect(parseU256(`${value}`, "number")).toBe(value);
      expect(parseU256(`${value}.000`, "number")).toBe(value);
      expect(parseU256(toHex(value), "string")).toBe(value);
    }),
  );
});

it("U256 out is minimal lower-case hex", () => {
  fc.assert(fc.property(amount, (value) => /^0x(0|[1-9a-f][0-9a-f]{0,63})$/.test(toHex(value))));
});

it("nothing above 2^256-1 passes", () => {
  fc.assert(
    fc.property(fc.bigInt({ min: U256_MAX + 1n, max: 2n ** 400n }), (value) => {
      expect(parseU256(`${value}`, "string")).toBeUndefined();
      expect(parseU256(`0x${value.toString(16)}`, "string")).toBeUndefined();
      expect(parseU256(`${value}`, "number")).toBeUndefined();
    }),
  );
});

it.each([
  "",
  " 1",
  "1 ",
  "+1",
  "-1",
  "1.0",
  "1e3",
  "0x",
  "0X1",
  "x1",
  "١",
  "1_000",
  "0b1",
  "0o7",
  "NaN",
  "Infinity",
  "0x1g",
])("the text %j is no amount", (text) => {
  expect(parseU256(text, "string")).toBeUndefined();
});

it.each(["1.5", "-1", "1e-1", "1e999999999", "1e78"])("the JSON number %s is no amount", (text) => {
  expect(parseU256(text, "number")).toBeUndefined();
});
