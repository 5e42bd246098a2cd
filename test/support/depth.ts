/**
 * How much the tests try. `npm test` is small, `npm run test:release` full: it sets TEST_DEPTH,
 * which vitest.config.ts also gives to workerd. The mutants meet `every` test, with few rounds.
 */
import { it } from "vitest";

const DEPTH = process.env["TEST_DEPTH"] ?? "small";
export const FULL = DEPTH === "full";
const EVERY = DEPTH !== "small";

/** Declares tests that only the release run has. */
export function inRelease(declare: () => void): void {
  if (FULL) declare();
}

/** `it` of a test that only the release run has. */
export function itInRelease(
  name: string,
  test: () => Promise<void> | void,
  timeoutMs?: number,
): void {
  inRelease(() => it(name, test, timeoutMs));
}

/** Rounds of a race, seeds, cases of a property. */
export function rounds(few: number, full: number): number {
  return FULL ? full : few;
}

/** `it` of a further case of something that another test of `npm test` has. */
export function itDeeper(name: string, test: () => Promise<void> | void, timeoutMs?: number): void {
  if (EVERY) it(name, test, timeoutMs);
}

/** The cases of a table, of which `npm test` tries the first. */
export function some<T>(cases: readonly T[], few = 1): readonly T[] {
  return EVERY ? cases : cases.slice(0, few);
}
