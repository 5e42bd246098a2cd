/**
 * Every table: the bytes that a row takes with its indexes, and the user that it belongs to. D1
 * reports only the size of the whole database, so these weights share it out among the tables. They
 * were measured with SQLite (test/support/node/row-bytes.ts); a test compares them.
 */
export type TableSize = {
  readonly bytes: number;
  /** SQL over the table's row `t`: the user id, as a BLOB. Absent if rows belong to nobody. */
  readonly user?: string;
  readonly withoutRowid?: true;
  /** The primary key, of ids, of a table without rowid whose rows are counted by user. */
  readonly key?: string;
};

/** The owner of the sub-account that a transfer debits, or else credits. */
const PAYER = `(SELECT a.owner FROM accounts a
  WHERE a.account_id = coalesce(t.from_sub_account, t.to_sub_account) / 2)`;

export const TABLE_SIZES: Readonly<Record<string, TableSize>> = {
  accepted_payments: { bytes: 223 },
  accept_commands: { bytes: 219 },
  account_policies: { bytes: 45, user: "t.user_id", withoutRowid: true },
  accounts: { bytes: 96, user: "iif(t.sub_account IS NULL, NULL, t.owner)" },
  alerts: { bytes: 129 },
  api_keys: { bytes: 295, user: "t.user_id" },
  armed_sockets: { bytes: 200, user: "t.user_id" },
  audit_anchor: { bytes: 20 },
  audit_events: { bytes: 199, user: "t.user_id" },
  audit_seals: { bytes: 78 },
  batch_members: { bytes: 147 },
  cancel_timers: { bytes: 106, user: "t.user_id" },
  candle_cursor: { bytes: 20 },
  candles: { bytes: 120, withoutRowid: true },
  chain_blocks: { bytes: 76 },
  chain_commands: { bytes: 80 },
  chain_cursors: { bytes: 100 },
  chain_factories: { bytes: 80 },
  chain_transactions: { bytes: 545 },
  checked_balances: { bytes: 31, withoutRowid: true },
  commit_groups: { bytes: 63 },
  daily_counts: { bytes: 82, user: "t.user_id" },
  alert_events: { bytes: 14 },
  delivery_cursors: { bytes: 49 },
  deposit_addresses: { bytes: 178, user: "t.user_id" },
  deposits: { bytes: 575, user: "t.user_id" },
  event_commands: { bytes: 78 },
  event_runs: { bytes: 82 },
  expiry_commands: { bytes: 109 },
  journal_seals: { bytes: 193 },
  kill_switches: { bytes: 80 },
  ledger_checkpoints: { bytes: 60 },
  liability_proofs: { bytes: 34 },
  login_attempts: { bytes: 225 },
  login_networks: { bytes: 92, user: "t.user_id" },
  market_corrections: { bytes: 150 },
  market_results: { bytes: 70 },
  redemptions: { bytes: 200, user: "t.user_id", withoutRowid: true, key: "redemption_id" },
  markets: { bytes: 165 },
  matches: { bytes: 570, user: "t.requester_id", key: "match_id" },
  opened_streams: { bytes: 178, user: "t.user_id" },
  operator_orders: { bytes: 109 },
  operator_proposals: { bytes: 161 },
  paused_venues: { bytes: 60 },
  owner_mends: { bytes: 9 },
  payer_leases: { bytes: 100 },
  protection_counts: { bytes: 37, user: "t.user_id", withoutRowid: true },
  protections: { bytes: 80, user: "t.user_id" },
  quote_commands: { bytes: 200 },
  quotes: { bytes: 430, user: "t.maker_id", key: "quote_id" },
  email_changes: { bytes: 158, user: "t.user_id", key: "user_id" },
  recovery_codes: { bytes: 125, user: "t.user_id" },
  removed_streams: { bytes: 20 },
  requests: { bytes: 274, user: "t.requester_id", key: "request_id" },
  sealed_balances: { bytes: 16 },
  sealed_owners: { bytes: 38, user: "t.owner", withoutRowid: true },
  service_levels: { bytes: 60 },
  shortfalls: { bytes: 80 },
  small_deposits: { bytes: 254, user: "t.user_id" },
  standing_accepts: { bytes: 195, user: "t.requester_id", withoutRowid: true },
  statement_leases: { bytes: 74, user: "t.user_id" },
  storage_samples: { bytes: 20 },
  stream_subscribers: { bytes: 84 },
  streams: { bytes: 92 },
  sweepable: { bytes: 129 },
  totp_attempts: { bytes: 123, user: "t.user_id" },
  totp_secrets: { bytes: 123, user: "t.user_id" },
  transaction_attempts: { bytes: 590 },
  traded_hours: {
    bytes: 61,
    user: "coalesce((SELECT k.user_id FROM api_keys k WHERE k.api_key_id = t.subject), t.subject)",
    withoutRowid: true,
  },
  transfers: { bytes: 136, user: PAYER },
  venue_days: { bytes: 29, withoutRowid: true },
  users: { bytes: 139, user: "t.user_id" },
  vault_events: { bytes: 334 },
  webhook_endpoints: { bytes: 193, user: "t.user_id" },
  withdrawal_addresses: { bytes: 240, user: "t.user_id" },
  withdrawals: { bytes: 543, user: "t.user_id" },
  ws_tickets: { bytes: 164, user: "t.user_id" },
};
