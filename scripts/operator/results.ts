/** Results of commands, as programs read them. */

type Halt = { at: string; reason: string } | null;

/** Of `chain status`. */
export type ServiceStatus = {
  chains: {
    chain: string;
    confirmed_block: number;
    head_block: number;
    moved_at: string;
    open_transactions: number;
    halted: Halt;
    payer_halted: Halt;
    withdrawals: { queued: number; submitted: number };
  }[];
  alerts: { kind: string; subject: string; detail: string; at: string }[];
  switches: { name: string; reason: string; since: string }[];
  reconciled: { recent_finished_at: string | null; full_finished_at: string | null };
  storage: { bytes: number; limit_bytes: number };
};

/** Of `reconcile`. `block`: the one at which each chain was read. */
export type Reconciliation = {
  ok: boolean;
  complete: boolean;
  differences: unknown[];
  block: Record<string, number>;
};
