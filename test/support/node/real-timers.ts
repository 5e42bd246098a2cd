/** Files of one process share its clock, so none may leave it changed to the next. */
import { afterAll, vi } from "vitest";

afterAll(() => {
  vi.useRealTimers();
});
