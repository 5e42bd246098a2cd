/**
 * How much the tests try. `npm test` is small, `npm run test:release` full: it sets TEST_DEPTH,
 * which vitest.config.ts also gives to workerd. docs/testing.md says what only the
 * release run tries.
 */
import { it } from "vitest";

export const FULL = process.env["TEST_DEPTH"] === "full";

/** Declares tests that only the release run has. */
export function inRelease(declare: () => void): void {
  if (FULL) declare();
}

/** `it` of a test that only the release run has. */
export function itInRelease(name: string, test: () => Promise<void>, timeoutMs?: number): void {
  inRelease(() => it(name, test, timeoutMs));
}

/** Rounds of a race, seeds, cases of a property. */
export function rounds(few: number, full: number): number {
  return FULL ? full : few;
}
