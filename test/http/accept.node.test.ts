import { expect, it } from "vitest";
import { prefers } from "../../src/http/accept.ts";

it.each([
  [null, false],
  ["*/*", false],
  ["application/json", false],
  ["text/csv", true],
  ["Text/CSV; header=present", true],
  ["text/csv, application/json", true],
  ["application/json, text/csv", false],
  ["application/json;q=0.1, text/csv", true],
  ["application/json, text/csv;q=0.9", false],
  ["text/csv;q=0", false],
  ["text/csv;q=wrong", false],
])("accept %s prefers CSV: %s", (accept, wanted) => {
  expect(prefers(accept, "text/csv")).toBe(wanted);
});
