/** The statuses of requests and quotes, and why quotes ended, which CHECKs of migrations/ allow. */
export const REQUEST_STATUSES = ["open", "matched", "cancelled", "expired"] as const;
export type RequestStatus = (typeof REQUEST_STATUSES)[number];
export const QUOTE_STATUSES = ["open", "accepted", "cancelled", "expired", "rejected"] as const;
export type QuoteStatus = (typeof QUOTE_STATUSES)[number];
/** Why a quote was cancelled that its maker did not cancel. */
export const CANCEL_REASONS = [
  "replaced",
  "timeout",
  "protection",
  "disconnect",
  "outbid",
] as const;
export type CancelReason = (typeof CANCEL_REASONS)[number];
/** Why a quote ended: its status, or for a cancelled one the reason. */
export const CLOSE_REASONS = [
  "accepted",
  "rejected",
  "cancelled",
  "expired",
  ...CANCEL_REASONS,
] as const;
export type CloseReason = (typeof CLOSE_REASONS)[number];
