/**
 * Kinds that nothing else closes, because the service cannot tell that their cause is gone. An open
 * alert hides the next case of its kind and subject, so an operator closes it after the review
 * (`alerts close`). Other kinds close by themselves or by a command of their own, and those that
 * close by themselves would be raised again.
 */
export const REVIEWED_ALERTS = [
  "withdrawal_dead_letter",
  "withdrawal_parked",
  "payment_terms",
  "payment_skipped",
  "deposit_phantom",
  "deposit_missed",
  "deposit_address_altered",
  "key_row_altered",
] as const;
