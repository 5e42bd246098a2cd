import { randomInt } from "node:crypto";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { encodeAmounts, encodeMarks, hasAmount, hasMark } from "../../src/archive/summary.ts";

const ASSETS = ["usdc", "venue_one:0x1", "venue_two:0x2"];

/** Around the largest number that is exact, and everything else. */
const amount = fc.oneof(
  fc.bigInt({ min: 0n, max: 20n }),
  fc.bigInt({ min: 2n ** 53n - 5n, max: 2n ** 53n + 5n }),
  fc.bigInt({ min: -(2n ** 62n), max: 2n ** 62n }),
);
const transfers = fc.array(fc.record({ asset: fc.constantFrom(...ASSETS), amount }), {
  maxLength: 30,
});

it("knows exactly whether a wanted asset has an amount within bounds", () => {
  fc.assert(
    fc.property(
      transfers,
      fc.tuple(fc.boolean(), fc.boolean(), fc.boolean()),
      amount,
      amount,
      (rows, wanted, least, most) => {
        const expected = rows.some(
          (row) =>
            wanted[ASSETS.indexOf(row.asset)] === true && row.amount >= least && row.amount <= most,
        );
        expect(hasAmount(encodeAmounts(ASSETS, rows), wanted, { least, most })).toBe(expected);
      },
    ),
    { numRuns: 2_000 },
  );
});

it("takes less than three bytes for each of 5 000 amounts up to 500 USDC", () => {
  const rows = Array.from({ length: 5_000 }, () => ({
    asset: "usdc",
    amount: BigInt(randomInt(1_000_000, 500_000_000)),
  }));
  expect(encodeAmounts(["usdc"], rows).length / rows.length).toBeLessThan(3);
});

it("finds the mark of every id that it has, and of few others", () => {
  const idOf = (n: number) => `019b0000000070008000${String(n * 7_919).padStart(12, "0")}`;
  const marks = encodeMarks(Array.from({ length: 500 }, (_, n) => idOf(n)));
  const found = Array.from({ length: 1_000 }, (_, n) => hasMark(marks, idOf(n)));
  expect(found.slice(0, 500)).not.toContain(false);
  expect(found.slice(500).filter(Boolean).length).toBeLessThan(5);
});
