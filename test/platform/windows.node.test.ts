import { expect, it } from "vitest";
import { checkWindows, KEPT, READ, windowsOf } from "../../src/platform/windows.ts";

it("keeps every window at least as long as what reads it", () => {
  expect(() => checkWindows()).not.toThrow();
});

it.each(Object.entries(READ))("refuses to start if %s would miss rows", (_, { of, ms }) => {
  expect(() => checkWindows({ ...KEPT, [of]: ms - 1 })).toThrow(of);
});

it("shortens all windows of the archive by one divisor", () => {
  const [full, short] = [1, 100].map((HOT_WINDOWS_DIVISOR) => windowsOf({ HOT_WINDOWS_DIVISOR }));
  for (const name of ["ended", "matches", "tape", "sealEvery"] as const)
    expect(short?.[name]).toBe((full?.[name] ?? 0) / 100);
  // Requests take as long as ever.
  expect(short?.releaseLag).toBe(5_000);
});
