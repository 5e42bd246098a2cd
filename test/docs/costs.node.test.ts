import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { withCosts } from "../../bench/cost-tables.ts";

const costs = readFileSync("docs/costs.md", "utf8");

it("costs.md says what follows from its own rows", () => {
  expect(withCosts(costs)).toBe(costs);
});

it("computes again from a changed row", () => {
  const changed = costs.replace(
    /(?<begin>by the quote with four indexes.*\| )6\.0/,
    "$<begin>16.0",
  );
  expect(withCosts(changed)).toMatch(/^\| rows written [^|]*\| 23\.5 \|$/m);
  expect(withCosts(changed)).not.toContain("**36 500**");
});
