/** The members of an error response beyond those of every one. Amounts are hexadecimal text. */

type Limit = { limit: string; maximum: string | null; used?: string | null; required?: string };

/** By code. A test compares them with the examples of the service. */
export type ProblemMembers = {
  timestamp_outside_tolerance: { server_time: string; skew_ms: number };
  signature_invalid: {
    signed: {
      timestamp: string;
      method: string;
      path_and_query: string;
      body_sha256: string;
      body_bytes: number;
    };
  };
  account_frozen: { frozen_by?: "self" | "operator" };
  security_hold: { until: string };
  scope_missing: { required_scope: string; granted_scopes: string[] };
  deadline_passed: { server_time: string };
  quote_not_open: { quote_status: string; match_id?: string };
  request_not_open: { match_id?: string };
  price_out_of_range: { last_price: number; max_deviation: number };
  no_quote_within: { best_price: number | null };
  /** In native units of the token, or of USDC for a request in money. */
  request_amount_limit: { minimum: string };
  cancel_after_passed: { cancel_at: string };
  /** Null if only a reset ends it. */
  protection_tripped: { blocked_until: string | null };
  key_limit: Limit;
  account_limit: Limit;
  insufficient_funds: { available: string; required: string; usdc_reserve?: string };
  withdrawal_amount_limit: { minimum: string; maximum: string };
  withdrawal_daily_limit: { remaining: number };
  chain_liquidity: { available: string };
  /** Null if it is not listed. */
  address_not_listed: { active_from: string | null };
  withdrawal_not_approvable: { withdrawal_status: string };
  withdrawal_not_cancellable: { withdrawal_status: string };
  events_gone: { last_seq: number };
  daily_limit: { limit: string; max_per_day: number };
  internal: { outcome: "none" | "unknown" };
  unavailable: { outcome: "none" | "unknown" };
};

/** The members that a problem with this code has. */
export type MembersOf<Code> = Code extends keyof ProblemMembers ? ProblemMembers[Code] : unknown;
