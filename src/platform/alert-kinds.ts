/** What each kind of alert asks of whom. docs/handbook.md has a heading for each. */
type Terms = {
  /** `page`: at any hour, because money may move wrongly or cannot move. `ticket`: by day. */
  readonly urgency: "page" | "ticket";
  /** A command that shows the cause and changes nothing. Default: `alerts list` of the kind. */
  readonly next?: (subject: string) => readonly string[];
  /** What an operator who knows the cause runs. Default of `review`: `alerts close`. */
  readonly close?: (subject: string, detail: string) => readonly string[];
  /**
   * `review`: only `alerts close`, or a command about the same record, because the service cannot
   * tell that the cause is gone. An open alert hides the next case of its kind and subject.
   * `command`: a command of its own. `itself`: when the cause is gone.
   */
  readonly closes: "itself" | "command" | "review";
  /** The part that is not well, so that HEARTBEAT_URL is not called (heartbeat.ts). */
  readonly stops?: "trading" | "watcher" | "payer" | "sealer" | "reconciliation" | "alerts";
};

const shows =
  (...words: string[]) =>
  () =>
    words;
const chainStatus = shows("chain", "status");
const queued = shows("withdrawals", "list", "--status", "queued");
const verify = shows("journal", "verify");
const restore = shows("restore");
const withdrawal = (id: string) => ["withdrawals", "show", "--id", id];
const retry = (id: string) => ["withdrawals", "retry", "--id", id];
const resume = (chain: string) => ["chain", "resume", chain];
/** In a reason of the payer to halt: the vault has paid what the database does not know. */
export const NEEDS_RESTORE = "`restore` finds what was paid";
/** Ends with the flag of the reason, which the operator must know. */
const reviewOf = (kind: string) => (subject: string) => [
  "alerts",
  "close",
  "--kind",
  kind,
  "--subject",
  subject,
  "--reason",
];

export const ALERTS = {
  alerts_late: { urgency: "ticket", next: shows("doctor"), closes: "itself", stops: "alerts" },
  anchor_late: { urgency: "ticket", next: shows("audit", "verify"), closes: "itself" },
  archive_damaged: {
    urgency: "page",
    next: verify,
    closes: "itself",
    stops: "sealer",
  },
  chain_halted: {
    urgency: "page",
    next: chainStatus,
    close: resume,
    closes: "command",
    stops: "watcher",
  },
  chain_removed: { urgency: "page", next: queued, closes: "itself" },
  chain_unreachable: { urgency: "page", next: chainStatus, closes: "itself", stops: "watcher" },
  clock_ahead: { urgency: "page", next: chainStatus, closes: "itself" },
  deposit_address_altered: { urgency: "page", closes: "review" },
  deposit_missed: { urgency: "ticket", closes: "review" },
  deposit_phantom: { urgency: "ticket", closes: "review" },
  deposit_quarantined: {
    urgency: "ticket",
    next: shows("deposits", "list", "--status", "quarantined"),
    close: shows("deposits", "reviewed", "--reason"),
    closes: "command",
  },
  endpoint_failing: { urgency: "ticket", next: chainStatus, closes: "itself" },
  fee_ceiling: { urgency: "page", next: chainStatus, closes: "itself" },
  finality_stalled: { urgency: "page", next: chainStatus, closes: "itself", stops: "watcher" },
  gas_low: { urgency: "ticket", next: chainStatus, closes: "itself" },
  history_cut: {
    urgency: "page",
    next: verify,
    close: shows("journal", "mend"),
    closes: "itself",
    stops: "sealer",
  },
  journal_restored: {
    urgency: "page",
    next: verify,
    close: restore,
    closes: "command",
    stops: "sealer",
  },
  key_row_altered: { urgency: "page", closes: "review" },
  liabilities_late: { urgency: "ticket", next: shows("reconcile"), closes: "itself" },
  limit_reached: { urgency: "ticket", next: queued, closes: "itself" },
  node_refused: { urgency: "page", next: chainStatus, closes: "itself" },
  nodes_disagree: { urgency: "page", next: chainStatus, closes: "itself", stops: "watcher" },
  notices_late: { urgency: "ticket", next: shows("doctor"), closes: "itself" },
  pager_test: { urgency: "page", closes: "review" },
  payer_failing: { urgency: "page", next: chainStatus, closes: "itself", stops: "payer" },
  payer_halted: {
    urgency: "page",
    next: chainStatus,
    // After a resume the payer would halt again.
    close: (chain, reasons) => (reasons.includes(NEEDS_RESTORE) ? restore() : resume(chain)),
    closes: "command",
    stops: "payer",
  },
  payment_refused: { urgency: "page", next: chainStatus, closes: "itself" },
  payment_skipped: { urgency: "ticket", closes: "review" },
  payment_terms: { urgency: "page", closes: "review" },
  payment_unknown: { urgency: "page", next: chainStatus, close: restore, closes: "command" },
  payment_unmined: { urgency: "page", next: chainStatus, closes: "itself", stops: "payer" },
  reconciliation: {
    urgency: "page",
    next: shows("reconcile"),
    close: shows("reconcile", "--resolve"),
    closes: "command",
    stops: "reconciliation",
  },
  record_stuck: {
    urgency: "ticket",
    close: (id) => ["stuck", "end", "--id", id],
    closes: "command",
  },
  result_differs: {
    urgency: "page",
    next: (asset) => ["market", "list", "--venue", asset.split(":")[0] ?? ""],
    // The operators learn from the chain what it pays. It closes once the chain shows the same.
    closes: "itself",
  },
  schema_drift: { urgency: "page", next: shows("alerts", "list", "--wide"), closes: "itself" },
  seal_mismatch: {
    urgency: "page",
    next: verify,
    close: restore,
    closes: "command",
    stops: "sealer",
  },
  sealer_behind: { urgency: "page", next: chainStatus, closes: "itself", stops: "sealer" },
  sealer_failing: { urgency: "ticket", next: shows("doctor"), closes: "itself", stops: "sealer" },
  settlement_late: { urgency: "page", next: shows("reconcile"), closes: "itself" },
  storage_filling: { urgency: "ticket", next: shows("storage"), closes: "itself" },
  storage_full: { urgency: "page", next: shows("storage"), closes: "itself", stops: "trading" },
  token_refuses: { urgency: "ticket", next: queued, closes: "itself" },
  venue_paused: {
    urgency: "ticket",
    close: (venue) => ["venue", "resume", venue],
    closes: "itself",
  },
  vault_paused: { urgency: "page", next: chainStatus, closes: "itself" },
  withdrawal_altered: {
    urgency: "page",
    // The subject of an altered transaction is its chain and nonce.
    next: (subject) => (subject.includes(":") ? chainStatus() : withdrawal(subject)),
    close: (subject) =>
      subject.includes(":") ? reviewOf("withdrawal_altered")(subject) : retry(subject),
    closes: "review",
  },
  withdrawal_dead_letter: { urgency: "ticket", closes: "review" },
  withdrawal_late: { urgency: "page", next: chainStatus, closes: "itself", stops: "payer" },
  withdrawal_parked: { urgency: "ticket", next: withdrawal, close: retry, closes: "review" },
  withdrawals_paused: {
    urgency: "ticket",
    next: queued,
    close: shows("withdrawals", "resume"),
    closes: "itself",
  },
} as const satisfies Record<string, Terms>;

export type AlertKind = keyof typeof ALERTS;

const TERMS: Readonly<Record<string, Terms>> = ALERTS;

/** Undefined for a kind that an earlier release raised. */
export function alertTermsOf(kind: string): (Terms & Required<Pick<Terms, "next">>) | undefined {
  const terms = TERMS[kind];
  if (terms === undefined) return undefined;
  const review = terms.closes === "review" ? { close: reviewOf(kind) } : {};
  return { next: shows("alerts", "list", "--kind", kind), ...review, ...terms };
}

function kindsWith(has: (terms: Terms) => boolean): AlertKind[] {
  // Safe cast: these are the keys of the table.
  const kinds = Object.keys(ALERTS) as AlertKind[];
  return kinds.filter((kind) => has(ALERTS[kind]));
}

/** Kinds that `alerts close` closes. */
export const REVIEWED_ALERTS = kindsWith(({ closes }) => closes === "review");

/** Kinds that keep the heartbeat back. */
export const STOPPING_ALERTS = kindsWith(({ stops }) => stops !== undefined);

/** The heading of docs/handbook.md about a kind. */
export function handbookOf(kind: string): string {
  return `docs/handbook.md#${kind}`;
}
