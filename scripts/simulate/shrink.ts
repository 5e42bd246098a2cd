/** Cuts the list of steps to a short one that still violates the same property. */
import { type Report, type Run, runSeed } from "./run.ts";

/** A shorter list is nice to have, so the search ends after this time. */
const BUDGET_MS = 120_000;

/** Removes ever smaller chunks of the list, as long as the failure stays. */
export async function shrink(
  run: Run,
  report: Report,
  say: (line: string) => void,
): Promise<readonly number[]> {
  const until = performance.now() + BUDGET_MS;
  let shortest = report.done ?? [];
  for (let size = Math.ceil(shortest.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let start = 0; start < shortest.length;) {
      if (performance.now() > until) return shortest;
      const keep = [...shortest.slice(0, start), ...shortest.slice(start + size)];
      const shorter = keep.length === 0 ? undefined : await runSeed({ ...run, keep });
      if (shorter?.failure?.property === report.failure?.property && shorter?.done !== undefined) {
        shortest = shorter.done;
        say(`  ${shortest.length} steps still fail`);
      } else start += size;
    }
  }
  return shortest;
}
