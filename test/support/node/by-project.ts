/**
 * The order of the test files. Without it vitest runs the projects by their names, and the single
 * files of the two slowest ones alone.
 */
import { BaseSequencer, type TestSpecification } from "vitest/node";

const PROJECTS = ["contracts", "simulator", "node", "workers", "journeys"];

/** Those that move D1's clock come last, because later files of their worker see what they did. */
const isLast = ({ moduleId }: TestSpecification) => moduleId.endsWith(".clock.test.ts");

export class ByProject extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = (file: TestSpecification) =>
      2 * PROJECTS.indexOf(file.project.name) + (isLast(file) ? 1 : 0);
    const longestFirst = super.sort.bind(this);
    return (await longestFirst(files)).toSorted((a, b) => place(a) - place(b));
  }
}
