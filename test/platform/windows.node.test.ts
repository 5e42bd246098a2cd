import { expect, it } from "vitest";
import { config } from "../../src/platform/config.ts";
import { MAX_CLOCK_LEAD_MS } from "../../src/platform/time.ts";
import { KEPT, KEY_LIFE_MS, OLDEST_READ, windowsOf } from "../../src/platform/windows.ts";
import { testSettings } from "../support/settings.ts";

it.each(Object.entries(OLDEST_READ))(
  "keeps rows at least as long as %s reads them",
  (_, { of, ms }) => {
    expect(KEPT[of]).toBeGreaterThanOrEqual(ms);
  },
);

it("counts the life of a key from the commit of its record at the earliest", () => {
  const earlierMs = KEY_LIFE_MS - OLDEST_READ.replayByKey.ms - MAX_CLOCK_LEAD_MS;
  const RFQ_COMMAND_MAX_WAIT_MS = String(earlierMs);
  expect(() => config({ ...testSettings(), RFQ_COMMAND_MAX_WAIT_MS })).toThrow();
});

it("shortens all windows of the archive by one divisor", () => {
  const [full, short] = [1, 100].map((HOT_WINDOWS_DIVISOR) => windowsOf({ HOT_WINDOWS_DIVISOR }));
  for (const name of ["ended", "matches", "tape", "sealEvery"] as const)
    expect(short?.[name]).toBe((full?.[name] ?? 0) / 100);
  // Requests take as long as ever.
  expect(short?.releaseLag).toBe(5_000);
});
