import { readFileSync } from "node:fs";
import { beforeAll, describe, expect, it } from "vitest";
import { fileOf } from "../../scripts/mutants/mutant.ts";
import { MUTANTS } from "../../scripts/simulate/mutants.ts";
import { type Report, runSeed } from "../../scripts/simulate/run.ts";
import { FULL, itInRelease, rounds } from "../support/depth.ts";

describe("simulator", { timeout: 300_000 }, () => {
  const run = { steps: rounds(200, 800), phase: 200 };
  let reports: Report[];
  beforeAll(async () => {
    reports = [];
    for (const seed of ["1", "2", "3"].slice(0, rounds(1, 3)))
      reports.push(await runSeed({ ...run, seed }));
  });

  it("finds no violation in these seeds", () => {
    const reached = new Map<string, number>();
    for (const report of reports) {
      expect(report.failure).toBeUndefined();
      expect(report.commands).toBeGreaterThan(300);
      for (const [name, number] of Object.entries(report.tally))
        reached.set(name, (reached.get(name) ?? 0) + number);
    }
    for (const name of ["matches", "credited", "settled", "seals", "released"])
      expect([name, reached.get(name)]).not.toEqual([name, 0]);
    // With more seeds, each part of the simulation does something.
    if (FULL) expect([...reached].filter(([, number]) => number === 0)).toEqual([]);
  });

  itInRelease("repeats a seed with the same history", async () => {
    const again = await runSeed({ ...run, seed: "1" });
    expect(again.history).toBe(reports[0]?.history);
    expect(again.history).not.toBe(reports[1]?.history);
  });

  itInRelease("carries out a part of the steps, to shrink a failing list", async () => {
    const report = await runSeed({ seed: "1", steps: 40, keep: [0, 1, 2, 3] });
    expect(report.steps).toBe(4);
    expect(report.history).not.toBe(reports[0]?.history);
  });

  it.each(MUTANTS)("can apply the mutant $name", (mutant) => {
    expect(readFileSync(fileOf(mutant), "utf8")).toContain(mutant.find);
  });

  // A mutant undoes a guard that once was missing. These are found soonest. The others run before a
  // release (`npm run simulate -- --mutants`).
  const SOONEST = [
    "commands-wait-for-ever",
    "quote-life-from-commit",
    "unfrozen-sockets-close",
    "expiry-waits-for-idleness",
  ];
  it.each(FULL ? SOONEST : [])("finds the mutant %s", async (mutant) => {
    expect(MUTANTS.map(({ name }) => name)).toContain(mutant);
    let found: Report["failure"];
    for (let seed = 1; seed <= 10 && found === undefined; seed++)
      found = (await runSeed({ seed: String(seed), steps: 3_000, phase: 250, mutant })).failure;
    expect(found).toBeDefined();
  });
});
