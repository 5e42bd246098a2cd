/**
 * The order of the test files. By their names, as vitest has it, projects of one long file would
 * keep a single core busy, and both cores would start workerd at once.
 */
import { BaseSequencer, type TestSpecification } from "vitest/node";

const PROJECTS = ["contracts", "simulator", "workers", "journeys", "node"];

/**
 * Later files of a worker see what is in its database. Those with a chain expect little there, and
 * a reconciliation reads all of it. The last ones leave thousands of rows, or move D1's clock.
 */
const TURNS = [
  /(?<!\/vanished-deposits)\.anvil\.ts$/,
  /\/reconcile\/[^/]*$/,
  /(?<!\.clock)\.test\.ts$/,
  /\/vanished-deposits\.anvil\.ts$/,
  /\.clock\.test\.ts$/,
];

export class ByProject extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ project, moduleId }: TestSpecification) =>
      TURNS.length * PROJECTS.indexOf(project.name) +
      TURNS.findIndex((turn) => turn.test(moduleId));
    const longestFirst = super.sort.bind(this);
    return (await longestFirst(files)).toSorted((a, b) => place(a) - place(b));
  }
}
