/** Amounts and prices as people write them. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { formatUnits, parseUnits, price } from "../../packages/client/src/index.ts";

it("formatUnits and parseUnits are opposites for any amount", () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }), fc.nat(30), (units, decimals) => {
      expect(parseUnits(formatUnits(units, decimals), decimals)).toBe(units);
    }),
  );
});

it("parseUnits is exact and rejects other text", () => {
  expect([parseUnits("1.5"), parseUnits("0.000001"), parseUnits("12", 0)]).toEqual([
    1_500_000n,
    1n,
    12n,
  ]);
  for (const text of ["", "-1", "1e6", ".5", "1.", "1.0000001", " 1", "0x10", "1,5"])
    expect(() => parseUnits(text)).toThrow(RangeError);
});

it("formatUnits writes the sign and no trailing zeros", () => {
  expect([1_500_000n, -1n, 0n, 10_000_000n].map((units) => formatUnits(units))).toEqual([
    "1.5",
    "-0.000001",
    "0",
    "10",
  ]);
});

it("formatUnits rejects a number, whose fraction would become a wrong text", () => {
  // @ts-expect-error As plain JavaScript may call it.
  expect(() => formatUnits(1.5)).toThrow(TypeError);
});

it("price scales every price of six decimals exactly", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1_000_000 }), (scaled) => {
      expect(price(formatUnits(BigInt(scaled)))).toBe(scaled);
    }),
  );
  expect([price(0.65), price(0.29), price(1), price("0.5")]).toEqual([
    650_000, 290_000, 1_000_000, 500_000,
  ]);
  for (const wrong of [0, -0.5, 1.1, 0.1234567, 1e-7, Number.NaN, Infinity, "2"])
    expect(() => price(wrong)).toThrow(RangeError);
});
