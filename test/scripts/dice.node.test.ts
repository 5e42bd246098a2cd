import { describe, expect, it } from "vitest";
import { Dice } from "../../scripts/actors/dice.ts";

const draws = (seed: string) => {
  const dice = new Dice(seed);
  return Array.from({ length: 50 }, () => [
    dice.between(1, 6),
    dice.weighted({ a: 1, b: 3 }),
    dice.hex(2),
    dice.part(1_000n),
  ]);
};

describe("the dice of the soak", () => {
  it("draw the same values for the same seed", () => {
    expect(draws("one/hand-0")).toEqual(draws("one/hand-0"));
    expect(draws("one/hand-0")).not.toEqual(draws("one/hand-1"));
  });

  it("stay within their bounds and weights", () => {
    const dice = new Dice("bounds");
    const drawn = Array.from({ length: 6_000 }, () => dice.between(1, 6));
    for (let side = 1; side <= 6; side++)
      expect(drawn.filter((one) => one === side).length).toBeGreaterThan(800);
    expect(drawn.every((one) => one >= 1 && one <= 6)).toBe(true);
    expect(
      Array.from({ length: 1_000 }, () => dice.part(3n)).every((part) => part >= 1n && part <= 3n),
    ).toBe(true);
    expect(
      Array.from({ length: 1_000 }, () => dice.weighted({ never: 0, always: 1 })),
    ).not.toContain("never");
  });
});
