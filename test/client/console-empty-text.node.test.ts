import { expect, it } from "vitest";
import { emptyText } from "../../packages/console/src/ui/empty-text.ts";

it("says that nothing matches only if no page follows", () => {
  expect(emptyText(undefined, "No entries match.")).toBe("No entries match.");
  expect(emptyText({ next_cursor: null }, "No entries match.")).toBe("No entries match.");
  expect(emptyText({ next_cursor: "17" }, "No entries match.")).toContain("Press Older");
});
