/** The reasons and steps of the journal as numbers, because most indexes contain both columns. */
import { atom, type Expr, expr } from "../platform/sql.ts";

/** A code is the position in the list, counted from 1. Append only, and never remove one. */
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

/** The part of a record's life. Settlement and release share `end`: a withdrawal ends once. */
const STEPS = ["reserve", "end", "match", "credit", "queue"] as const;
export type Step = (typeof STEPS)[number];

export function reasonNumber(reason: Reason): number {
  return REASONS.indexOf(reason) + 1;
}

/** A literal and not a parameter, so that SQLite can use a partial index of some reasons. */
export function reasonCode(reason: Reason): Expr {
  return atom(String(reasonNumber(reason)));
}

export function stepNumber(step: Step): number {
  return STEPS.indexOf(step) + 1;
}

export function stepCode(step: Step): Expr {
  return atom(String(stepNumber(step)));
}

export function readReason(code: number): Reason {
  const reason = REASONS[code - 1];
  if (reason === undefined) throw new RangeError(`unknown reason code ${code} in the journal`);
  return reason;
}

/** For reports about a journal that may be damaged. */
export function describeReason(code: number): string {
  return REASONS[code - 1] ?? `reason ${code}`;
}

export type AccountKind = "available" | "pending" | "external" | "fees";

/**
 * Types of transfer for reads, as `[reason, from, to]`, those of pairs apart: what a user gives to
 * a pair or gets from it is read as of a trade. The reconciliation states its own.
 */
export const TRANSFER_TYPES: readonly (readonly [Reason, AccountKind, AccountKind])[] = [
  ["deposit", "external", "available"],
  ["reserve_rfq", "available", "pending"],
  ["reserve_trade", "available", "pending"],
  ["trade", "pending", "available"],
  ["fee", "pending", "fees"],
  ["fee", "available", "fees"],
  ["release", "pending", "available"],
  ["withdrawal", "available", "pending"],
  ["withdrawal", "pending", "external"],
  // A payment that nobody ordered (accepted_payments).
  ["withdrawal", "external", "external"],
];

/**
 * Whether the index `transfers_to` contains credits of this reason. Every other credit (of a
 * reserve or release) has its debit on the other sub-account of the same owner and asset. A list of
 * more than two values would make SQLite build a table of them for each transfer that it inserts.
 */
export function isIndexedCredit(reason: Expr): Expr {
  return expr`${reason} NOT BETWEEN ${reasonCode("reserve_rfq")} AND ${reasonCode("release")}`;
}
