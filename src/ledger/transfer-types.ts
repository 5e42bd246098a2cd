/** The journal's types of transfer (contract.md section 4). The reconciliation states its own. */
import { type Expr, expr } from "../platform/sql.ts";
import { type Reason, reasonCode } from "./codes.ts";

export type AccountKind = "available" | "pending" | "external" | "fees";

/** `[reason, from, to]`, where `from` and `to` are kinds of accounts. */
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

/** Credits from another owner. All others have their debit on another account of the same user. */
export const COUNTERPARTY_CREDITS = ["deposit", "trade"] as const satisfies Reason[];

/**
 * Whether the index `transfers_to` contains credits of this reason. Every other credit (of a
 * reserve or release) has its debit on the other sub-account of the same owner and asset. A list of
 * more than two values would make SQLite build a table of them for each transfer that it inserts.
 */
export function isIndexedCredit(reason: Expr): Expr {
  return expr`${reason} NOT BETWEEN ${reasonCode("reserve_rfq")} AND ${reasonCode("release")}`;
}
