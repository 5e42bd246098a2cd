import type { Reporter, TestModule } from "vitest/node";

/**
 * Prints `N passed, N failed, N skipped` alone on the last line, for programs that read results.
 */
export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const count = { passed: 0, failed: 0, skipped: 0, pending: 0 };
    for (const module of modules) {
      for (const test of module.children.allTests()) count[test.result().state] += 1;
    }
    console.log(
      `\n${count.passed} passed, ${count.failed} failed, ${count.skipped + count.pending} skipped`,
    );
  }
}
