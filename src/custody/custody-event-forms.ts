/** How custody events are stored. platform/event-forms.ts explains it. */
import type { EventForm } from "../platform/event-forms.ts";

export const DEPOSIT_CHANGED = {
  codes: {
    "deposit.detected": 11,
    "deposit.credited": 12,
    "deposit.orphaned": 13,
    "deposit.quarantined": 14,
    "deposit.below_minimum": 15,
  },
  ids: { deposit_id: 16 },
  values: [
    "chain",
    "address",
    "asset",
    "amount",
    "transaction_hash",
    "block_number",
    "confirmations",
    "required_confirmations",
    "status",
    "detected_at",
    "credited_at",
  ],
} as const satisfies EventForm;

export const WITHDRAWAL_CHANGED = {
  codes: {
    "withdrawal.awaiting_approval": 16,
    "withdrawal.queued": 17,
    "withdrawal.submitted": 18,
    "withdrawal.settled": 19,
    "withdrawal.failed": 20,
    "withdrawal.cancelled": 21,
  },
  ids: { withdrawal_id: 16, job_id: 16 },
  values: [
    "client_withdrawal_id",
    "chain",
    "asset",
    "amount",
    "to_address",
    "status",
    "created_at",
    "updated_at",
    "approval_expires_at",
    "transaction_hash",
    "failure_code",
    "failure_message",
  ],
} as const satisfies EventForm;

export const CUSTODY_FORMS: readonly EventForm[] = [DEPOSIT_CHANGED, WITHDRAWAL_CHANGED];
