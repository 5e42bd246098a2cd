/**
 * The order of the test files. By their names, as vitest has it, projects of one long file would
 * keep a single core busy, and both cores would start workerd at once.
 */
import { BaseSequencer, type TestSpecification } from "vitest/node";

const PROJECTS = ["contracts", "simulator", "workers", "node", "journeys"];

/** Later files of a worker see what is in its database. Those with a chain expect little there. */
const FIRST = ".anvil.ts";
/** These move D1's clock for good. */
const LAST = ".clock.test.ts";

export class ByProject extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ project, moduleId }: TestSpecification) =>
      3 * PROJECTS.indexOf(project.name) +
      (moduleId.endsWith(LAST) ? 2 : moduleId.endsWith(FIRST) ? 0 : 1);
    const longestFirst = super.sort.bind(this);
    return (await longestFirst(files)).toSorted((a, b) => place(a) - place(b));
  }
}
