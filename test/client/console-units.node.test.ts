/** Texts of amounts and prices in the console. */
import { describe, expect, it } from "vitest";
import {
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
  ])("reads %j as %s", (text, amount) => {
    expect(parseUnits(text)).toBe(amount);
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
