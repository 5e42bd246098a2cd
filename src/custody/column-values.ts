/** Values of custody's columns, which CHECKs of migrations/ allow. */
export const DEPOSIT_STATUSES = ["confirming", "credited", "orphaned", "quarantined"] as const;
/** The table `small_deposits` contains the deposits below the minimum. */
export const LISTED_DEPOSIT_STATUSES = [...DEPOSIT_STATUSES, "below_minimum"] as const;
export type ListedDepositStatus = (typeof LISTED_DEPOSIT_STATUSES)[number];
export const WITHDRAWAL_STATUSES = [
  "awaiting_approval",
  "queued",
  "submitted",
  "settled",
  "failed",
  "cancelled",
] as const;
export type WithdrawalStatus = (typeof WITHDRAWAL_STATUSES)[number];
export const FAILURE_CODES = ["payment_reverted", "operator_failed", "approval_expired"] as const;
export type FailureCode = (typeof FAILURE_CODES)[number];

/** What an operator can accept a payment as. */
export const ACCEPTED_AS = ["loss", "rescue"] as const;
