/** The clock of the console's pages, and the pace at which it shows what events change. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import {
  clockNow,
  everyQuarterSecond,
  paced,
  secondNow,
} from "../../packages/console/src/ui/clock.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("shows a burst at once and a flood once a second", () => {
  let shown = 0;
  const pace = paced(() => {
    shown += 1;
  });
  const flood = (ms: number) => {
    const before = shown;
    for (let past = 0; past < ms; past += 10) {
      pace.due();
      vi.advanceTimersByTime(10);
    }
    return shown - before;
  };
  expect(flood(1_000)).toBeGreaterThanOrEqual(4);
  expect(flood(10_000)).toBeLessThanOrEqual(12);
  vi.advanceTimersByTime(10_000);
  pace.due();
  vi.advanceTimersByTime(250);
  expect(flood(750)).toBeGreaterThanOrEqual(2);
  pace.cancel();
});

it("waits for the next tick when showing makes it due again", () => {
  let shown = 0;
  const pace = paced(() => {
    shown += 1;
    // Bounded, so that a failure ends.
    if (shown < 1_000) pace.due();
  });
  const stop = everyQuarterSecond(() => {});
  pace.due();
  vi.advanceTimersByTime(10_000);
  expect(shown).toBeGreaterThan(5);
  expect(shown).toBeLessThan(20);
  pace.cancel();
  stop();
});

it("shows the present second when a pause has ended", () => {
  everyQuarterSecond(() => {})();
  vi.advanceTimersByTime(60_000);
  const stop = everyQuarterSecond(() => {});
  expect(secondNow()).toBe(clockNow());
  stop();
});
