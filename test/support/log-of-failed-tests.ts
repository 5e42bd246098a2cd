/**
 * Keeps the lines that a test logs in workerd and prints them if it fails.
 *
 * Vitest's console sends every line to the process of vitest, and a file ends only when all lines
 * are acknowledged. A line of another request context, for example of an alarm or a queue consumer,
 * leaves workerd only with the next message of the test's own context. After the last result of a
 * file there is no next message, so a line that is logged at that moment makes the run hang
 * (cloudflare/workers-sdk#15719). The projects in workerd therefore do without vitest's console.
 */
import { format } from "node:util";
import { beforeEach } from "vitest";

/** Enough to explain a failure. The oldest lines are dropped, so a flood cannot fill memory. */
const LINES = 1_000;

const print = console.log.bind(console);
const lines: string[] = [];

for (const level of ["debug", "info", "log", "warn", "error"] as const)
  console[level] = (...values: unknown[]) => {
    if (lines.length === LINES) lines.shift();
    lines.push(format(...values));
  };

/** Every setup file of a project in workerd calls this, because hooks belong to one test file. */
export function printLogOfFailedTests(): void {
  beforeEach(({ task, onTestFinished }) => {
    onTestFinished(() => {
      if (task.result?.state === "fail")
        print([`The log of "${task.fullName}":`, ...lines].join("\n"));
      lines.length = 0;
    });
  });
}

/** The lines logged since the previous test, the oldest first. */
export function keptLines(): readonly string[] {
  return lines;
}
