import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { reportProgress } from "../../scripts/operator/progress.ts";

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(console, "error").mockImplementation(() => {});
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const printed = () => vi.mocked(console.error).mock.calls.flat();

it("reports a command after two seconds, and then every ten", () => {
  const progress = reportProgress("reconcile");
  vi.advanceTimersByTime(1_999);
  expect(printed()).toEqual([]);
  vi.advanceTimersByTime(1);
  progress.at("7 verified");
  vi.advanceTimersByTime(10_000);
  expect(printed()).toEqual([
    "reconcile: still running after 2 s",
    "reconcile: still running after 12 s, 7 verified",
  ]);
  progress.stop();
});

it("reports nothing of a command that has ended", () => {
  reportProgress("reconcile").stop();
  vi.advanceTimersByTime(60_000);
  expect(printed()).toEqual([]);
});
