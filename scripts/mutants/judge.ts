/**
 * A process that runs tests in a copy of the project, one mutant after the other. Vitest stays
 * loaded, so a mutant costs the time of its tests and of a start of workerd.
 */
import { createVitest, type TestModule } from "vitest/node";
import type { TestFile } from "./mutant.ts";

/** `changed` are the files that differ from the last order. */
export type Order = { readonly changed: readonly string[]; readonly tests: readonly TestFile[] };
export type Verdict = {
  readonly verdict: "caught" | "SURVIVED" | "INVALID";
  readonly detail: string;
};

const vitest = await createVitest(
  "test",
  {
    watch: true,
    project: ["node", "workers"],
    reporters: [],
    maxWorkers: 1,
    bail: 1,
    silent: true,
  },
  { server: { watch: null } },
);

process.on("message", (order: Order) => {
  void judgeTwice(order).then((verdict) => process.send?.(verdict));
});
// The leader of the group that also ends workerd.
process.on("disconnect", () => process.kill(-process.pid, "SIGKILL"));
process.send?.("ready");

/** Vite may have built its dependencies anew, which the copies share. Then nothing loads once. */
async function judgeTwice(order: Order): Promise<Verdict> {
  const verdict = await judge(order);
  return verdict.verdict === "INVALID" ? judge(order) : verdict;
}

/** The likeliest file runs first. The others start workerd once for each project. */
async function judge({ changed, tests }: Order): Promise<Verdict> {
  for (const file of changed) vitest.invalidateFile(file);
  const [likely, ...others] = tests;
  const runs = [[likely], ...Map.groupBy(others, ({ project }) => project).values()];
  for (const run of runs) {
    const files = run.flatMap((test) => test?.file ?? []);
    const found = await vitest.globTestSpecifications(files);
    const specifications = found.filter((test) => test.project.name === run[0]?.project);
    // A failure of the run before would end this one at once, because of `bail`.
    vitest.state.idMap.clear();
    vitest.state.filesMap.clear();
    const { testModules, unhandledErrors } = await vitest.runTestSpecifications(specifications);
    const failed = testModules.filter((module) => module.state() === "failed");
    const caughtBy = failed.find((module) => !isEmpty(module));
    if (caughtBy !== undefined) return { verdict: "caught", detail: firstFailure(caughtBy) };
    // Any test would "catch" a mutant that does not even load.
    if (failed.length > 0)
      return { verdict: "INVALID", detail: failed[0]?.errors()[0]?.message ?? "" };
    if (unhandledErrors.length > 0)
      return { verdict: "caught", detail: String(unhandledErrors[0]) };
    if (testModules.length < files.length)
      return { verdict: "INVALID", detail: `not found: ${files.join(" ")}` };
  }
  return { verdict: "SURVIVED", detail: "" };
}

function isEmpty(module: TestModule): boolean {
  return [...module.children.allTests()].length === 0;
}

function firstFailure(module: TestModule): string {
  const [test] = module.children.allTests("failed");
  return `${module.relativeModuleId} > ${test?.name ?? "a hook"}`;
}
