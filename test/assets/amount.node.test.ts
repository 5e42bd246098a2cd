import fc from "fast-check";
import { expect, it } from "vitest";
import { parseU256, toHex, U256_MAX } from "../../src/assets/amount.ts";

const amount = fc.bigInt({ min: 0n, max: U256_MAX });

it("parses a U256 from decimal, hexadecimal and JSON numbers alike", () => {
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

it("writes a U256 as minimal lower-case hexadecimal", () => {
  fc.assert(fc.property(amount, (value) => /^0x(0|[1-9a-f][0-9a-f]{0,63})$/.test(toHex(value))));
});

it("rejects values above 2^256-1", () => {
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
])("rejects the text %j as an amount", (text) => {
  expect(parseU256(text, "string")).toBeUndefined();
});

it.each(["1.5", "-1", "1e-1", "1e999999999", "1e78"])(
  "rejects the JSON number %s as an amount",
  (text) => {
    expect(parseU256(text, "number")).toBeUndefined();
  },
);
