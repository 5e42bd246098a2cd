/**
 * How the journal spells its reasons and steps: as numbers, since they stand in the table and in most of its indexes,
 * where names would be a third of every transfer.
 */
import { raw, type Sql } from "../platform/sql.ts";

/** A code is the place in its list, counted from 1. So add at the end only, and never take one out. */
export const REASONS = [
  "deposit",
  "withdrawal",
  "reserve_rfq",
  "reserve_trade",
  "release",
  "trade",
  "fee",
] as const;
export type Reason = (typeof REASONS)[number];

/** What part of a record's life a transfer is: a reserve ends once, so trade and release share the step `end`. */
const STEPS = ["reserve", "end", "match", "credit", "queue"] as const;
export type Step = (typeof STEPS)[number];

export function reasonNumber(reason: Reason): number {
  return REASONS.indexOf(reason) + 1;
}

/** A literal, not a parameter: only then does the planner know that an index of some reasons serves. */
export function reasonCode(reason: Reason): Sql {
  return raw(String(reasonNumber(reason)));
}

export function stepCode(step: Step): Sql {
  return raw(String(STEPS.indexOf(step) + 1));
}

export function readReason(code: number): Reason {
  const reason = REASONS[code - 1];
  if (reason === undefined) throw new RangeError(`no reason of the journal has the code ${code}`);
  return reason;
}

/** For reports about a database that may be broken. */
export function describeReason(code: number): string {
  return REASONS[code - 1] ?? `reason ${code}`;
}
