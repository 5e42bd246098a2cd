/**
 * The order of the test files. By their names, as vitest has it, projects of one long file would
 * keep a single core busy, and both cores would start workerd at once.
 */
import { BaseSequencer, type TestSpecification } from "vitest/node";

const PROJECTS = ["contracts", "simulator", "workers", "journeys", "node"];

/**
 * Later files of a worker see what is in its database. Those with a chain expect little there, and
 * a reconciliation reads all of it. The last ones leave thousands of rows, or move D1's clock. A
 * file has the turn of the first pattern that its path has, or else 2.
 */
const TURNS: readonly (readonly [pattern: RegExp, turn: number])[] = [
  [/\.clock\.test\.ts$/, 4],
  [/\/vanished-deposits\.anvil\.ts$/, 3],
  [/\.anvil\.ts$/, 0],
  [/\/test\/reconcile\//, 1],
];

export class FileOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const turnOf = (path: string) => TURNS.find(([pattern]) => pattern.test(path))?.[1] ?? 2;
    const place = ({ project, moduleId }: TestSpecification) =>
      10 * PROJECTS.indexOf(project.name) + turnOf(moduleId);
    const longestFirst = super.sort.bind(this);
    return (await longestFirst(files)).toSorted((a, b) => place(a) - place(b));
  }
}
