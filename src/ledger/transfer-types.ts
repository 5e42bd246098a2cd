/** Which movements the journal knows (contract.md section 4): what readers look for, and what reconciliation allows. */
import type { Reason } from "./codes.ts";
import type { AccountKind } from "./post.ts";

/** `[reason, from, to]`. */
export const MOVEMENTS: readonly (readonly [Reason, AccountKind, AccountKind])[] = [
  ["deposit", "external", "available"],
  ["reserve_rfq", "available", "pending"],
  ["reserve_trade", "available", "pending"],
  ["trade", "pending", "available"],
  ["fee", "pending", "fees"],
  ["fee", "available", "fees"],
  ["release", "pending", "available"],
  ["withdrawal", "available", "pending"],
  ["withdrawal", "pending", "external"],
];

/** What somebody else gives: their credits have no debit among the owner's own accounts. Every other one has. */
export const GIVEN_BY_OTHERS = ["deposit", "trade"] as const satisfies Reason[];
