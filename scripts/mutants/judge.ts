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
    project: ["node", "workers", "clock", "chain"],
    reporters: [],
    maxWorkers: 1,
    bail: 1,
    silent: true,
  },
  { server: { watch: null } },
);

process.on("message", (order: Order) => {
  void judge(order).then((verdict) => process.send?.(verdict));
});
// The leader of the group that also ends workerd.
process.on("disconnect", () => process.kill(-process.pid, "SIGKILL"));
process.send?.("ready");

async function judge({ changed, tests }: Order): Promise<Verdict> {
  for (const file of changed) vitest.invalidateFile(file);
  for (const { project, file } of tests) {
    const found = await vitest.globTestSpecifications([file]);
    const specifications = found.filter((test) => test.project.name === project);
    // A failure of the run before would end this one at once, because of `bail`.
    vitest.state.idMap.clear();
    vitest.state.filesMap.clear();
    const { testModules, unhandledErrors } = await vitest.runTestSpecifications(specifications);
    if (testModules.length === 0) return { verdict: "INVALID", detail: `no test: ${file}` };
    const broken = testModules.find(isNotLoaded);
    if (broken !== undefined)
      return { verdict: "INVALID", detail: broken.errors().map(String).join("\n") };
    const failed = testModules.find((module) => module.state() === "failed");
    if (failed !== undefined || unhandledErrors.length > 0)
      return { verdict: "caught", detail: failed === undefined ? "" : firstFailure(failed) };
  }
  return { verdict: "SURVIVED", detail: "" };
}

/** Any test would "catch" a mutant that does not even load. */
function isNotLoaded(module: TestModule): boolean {
  return module.state() === "failed" && [...module.children.allTests()].length === 0;
}

function firstFailure(module: TestModule): string {
  const [test] = module.children.allTests("failed");
  return `${module.relativeModuleId} > ${test?.name ?? "a hook"}`;
}
