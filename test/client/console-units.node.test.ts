/** Texts of amounts and prices in the console. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  exactUnits,
  formatPrice,
  formatUnits,
  parsePrice,
  parseUnits,
  worth,
} from "../../packages/console/src/units.ts";

describe("the console's amounts", () => {
  it.each([
    [0n, "0.00"],
    [1n, "0.000001"],
    [1_234_500_000n, "1,234.50"],
    [-12_345_678_900_000n, "−12,345,678.90"],
    [999_000_000n, "999.00"],
  ])("shows %s as %s", (amount, text) => {
    expect(formatUnits(amount)).toBe(text);
  });

  it.each([
    ["1,234.5", 1_234_500_000n],
    [" 0.000001 ", 1n],
    ["0", null],
    ["-1", null],
    ["1.0000001", null],
    ["1e3", null],
    ["", null],
    ["1,5", null],
    ["10,00", null],
    ["1.000,50", null],
    ["1,00,000", null],
    [",100", null],
    ["1,234.", null],
    ["1000", 1_000_000_000n],
  ])("reads %j as %s", (text, amount) => {
    expect(parseUnits(text)).toBe(amount);
  });

  it("reads what it shows, and nothing else that has a comma", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 1n, max: 2n ** 62n }), (amount) => {
        expect(parseUnits(formatUnits(amount))).toBe(amount);
        expect(parseUnits(exactUnits(amount))).toBe(amount);
      }),
    );
    const comma = fc.stringMatching(/^\d{0,4}(,\d{0,4}){1,2}(\.\d{0,3})?$/);
    fc.assert(
      fc.property(comma, (text) => {
        const isGrouped = /^\d{1,3}(,\d{3})+(\.\d{1,3})?$/.test(text);
        if (!isGrouped) expect(parseUnits(text)).toBeNull();
      }),
    );
  });

  it("keeps cents and prices apart", () => {
    expect([650_000, 645_000, 1, 1_000_000].map(formatPrice)).toEqual([
      "65.00¢",
      "64.50¢",
      "0.0001¢",
      "100.00¢",
    ]);
    expect(["65", "64.5¢", "0.0001", "100", "0", "100.01", "x"].map(parsePrice)).toEqual([
      650_000,
      645_000,
      1,
      1_000_000,
      null,
      null,
      null,
    ]);
    expect(worth(3n, 500_000)).toBe(2n);
  });
});
