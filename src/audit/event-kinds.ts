/** The kinds of audit events. */

/**
 * `user`: users cause it, `operator`: only operators do. `step-up`: the change takes step-up.
 * `notice`: the user receives it as `account.notice` on the stream of their account, because it
 * changes who may act. `details`: its events state what was ordered or done, with a MAC, because
 * the service itself acts on them.
 */
type Mark = "user" | "operator" | "step-up" | "notice" | "details";

const KINDS = {
  login: ["user"],
  login_failed: ["user"],
  login_new_network: ["user", "notice"],
  api_key_new_network: ["user", "notice"],
  sessions_ended: ["user"],
  api_key_created: ["user", "notice"],
  api_key_revoked: ["user", "notice"],
  api_key_approved: ["user", "notice"],
  api_key_activating: ["user", "notice", "details"],
  api_key_active: ["user", "notice", "details"],
  api_key_expiring: ["user", "notice", "details"],
  deposit_address_created: ["user"],
  withdrawal_queued: ["user"],
  withdrawal_cancelled: ["user"],
  account_frozen: ["user", "notice"],
  account_unfrozen: ["user", "notice"],
  password_changed: ["user", "step-up", "notice"],
  policy_changed: ["user", "step-up", "notice"],
  withdrawal_address_created: ["user", "step-up", "notice"],
  withdrawal_address_removed: ["user", "notice"],
  withdrawal_approved: ["user"],
  totp_requested: ["user", "step-up"],
  totp_enabled: ["user", "notice"],
  totp_replacement_requested: ["user", "notice"],
  totp_removal_requested: ["user", "step-up", "notice"],
  totp_removal_cancelled: ["user", "notice"],
  recovery_code_used: ["user", "notice"],
  security_hold: ["user"],
  protection_changed: ["user", "notice"],
  protection_reset: ["user", "notice"],
  email_change_cancelled: ["user", "notice"],
  webhook_created: ["user", "step-up", "notice"],
  webhook_removed: ["user", "notice"],
  webhook_secret_rotated: ["user", "step-up", "notice"],
  webhook_disabled: ["user", "notice"],
  user_created: ["operator"],
  password_set: ["operator", "notice"],
  email_change_requested: ["operator", "notice", "details"],
  email_changed: ["operator", "notice", "details"],
  totp_reset: ["operator", "notice"],
  keys_rewrapped: ["operator"],
  venue_paused: ["operator"],
  venue_resumed: ["operator"],
  market_set: ["operator"],
  markets_imported: ["operator"],
  market_closed: ["operator"],
  market_resolved: ["operator"],
  withdrawals_paused: ["operator"],
  withdrawals_resumed: ["operator"],
  withdrawal_retried: ["operator"],
  withdrawal_failed: ["operator"],
  chain_resumed: ["operator"],
  chain_rescanned: ["operator"],
  deposit_forgotten: ["operator"],
  address_resweep: ["operator"],
  restored: ["operator"],
  payment_accepted: ["operator"],
  differences_resolved: ["operator"],
  deposits_reviewed: ["operator"],
  alert_closed: ["operator"],
  stuck_ended: ["operator"],
  operator_order: ["operator", "details"],
  proposal_decided: ["operator", "details"],
  journal_sealed: ["operator", "details"],
  operators_changed: ["operator"],
  audit_epoch_opened: ["operator", "details"],
} as const satisfies Readonly<Record<string, readonly Mark[]>>;

type Kind = keyof typeof KINDS;
type With<One extends Mark> = {
  [Of in Kind]: One extends (typeof KINDS)[Of][number] ? Of : never;
}[Kind];

/** Kinds that users cause. */
export type AuditKind = With<"user">;
export type StepUpKind = With<"step-up">;
export type DetailedKind = With<"details">;
/** Kinds whose events need no details. */
export type PlainKind = Exclude<Kind, DetailedKind>;

/** The kinds with a mark, in the order of the list. */
export function kindsWith(mark: Mark): string[] {
  const kinds: readonly (readonly [string, readonly Mark[]])[] = Object.entries(KINDS);
  return kinds.filter(([, marks]) => marks.includes(mark)).map(([kind]) => kind);
}

const NOTICES = new Set(kindsWith("notice"));

/** Whether users receive a kind of event, which may be of other code, as a notice. */
export function isNotice(kind: string): boolean {
  return NOTICES.has(kind);
}
