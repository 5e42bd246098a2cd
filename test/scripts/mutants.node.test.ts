import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { MUTANTS } from "../../scripts/mutants/list.ts";

describe("the list of mutants", () => {
  it("has at least 80 of them, each with its own name", () => {
    expect(MUTANTS.length).toBeGreaterThanOrEqual(80);
    expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length);
  });

  it.each(MUTANTS)("$name still applies", ({ file, find, replace, tests }) => {
    expect(readFileSync(file, "utf8").split(find)).toHaveLength(2);
    expect(replace).not.toBe(find);
    for (const test of tests) expect(existsSync(test.file)).toBe(true);
  });
});
