import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { MUTANTS } from "../../scripts/mutants/list.ts";
import { fileOf } from "../../scripts/mutants/mutant.ts";

describe("the list of mutants", () => {
  it("has at least 80 of them, each with its own name", () => {
    expect(MUTANTS.length).toBeGreaterThanOrEqual(80);
    expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length);
  });

  it.each(MUTANTS)("$name still applies", ({ tests, ...mutant }) => {
    const { find, replace } = mutant;
    expect(readFileSync(fileOf(mutant), "utf8").split(find)).toHaveLength(2);
    expect(replace).not.toBe(find);
    for (const test of tests) expect(existsSync(test.file)).toBe(true);
  });
});
