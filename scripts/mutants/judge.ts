/**
 * A process that runs tests in a copy of the project, one mutant after the other. Vitest stays
 * loaded, so a mutant costs the time of its tests and of a start of workerd.
 */
import { createVitest, type TestModule } from "vitest/node";
import type { TestFile } from "./mutant.ts";
import { type RunModule, type Verdict, verdictOf } from "./verdict.ts";

/** `changed` are the files that differ from the last order. */
export type Order = { readonly changed: readonly string[]; readonly tests: readonly TestFile[] };

// A mutant may be noticed by a test that `npm test` leaves out (test/support/depth.ts).
process.env["TEST_DEPTH"] ??= "every";
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
  void judgeAgain(order).then((verdict) => process.send?.(verdict));
});
// The leader of the group that also ends workerd.
process.on("disconnect", () => process.kill(-process.pid, "SIGKILL"));
process.send?.("ready");

/** Vite may have built its dependencies anew, which the copies share. Then nothing loads once. */
async function judgeAgain(order: Order): Promise<Verdict> {
  let verdict = await judge(order);
  for (let tries = 1; tries < 3 && verdict.verdict === "INVALID"; tries += 1)
    verdict = await judge(order);
  return verdict;
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
    const modules = testModules.map(runModule);
    const verdict = verdictOf({ files, modules, errors: unhandledErrors });
    if (verdict.verdict !== "SURVIVED") return verdict;
  }
  return { verdict: "SURVIVED", detail: "" };
}

function runModule(module: TestModule): RunModule {
  return {
    file: module.relativeModuleId,
    state: module.state(),
    tests: [...module.children.allTests()].map((test) => ({
      name: test.name,
      state: test.result().state,
    })),
    error: module.errors()[0]?.message,
  };
}
