/**
 * The records of the service with the names that they have on the wire, so that the reference describes them too.
 * Amounts are `bigint`s in native units (6 decimals for USDC and outcome tokens), prices are integers scaled by 1e6,
 * timestamps are RFC 3339 texts in UTC with milliseconds: they sort as they are, and `new Date(text)` reads them.
 */

/** Every venue that the service knows. */
export const VENUES = ["venue_one", "venue_two", "venue_three"] as const;
/** Where an outcome token is from; what a deployment has is in `client.config()`. */
export type Venue = (typeof VENUES)[number];
/** `Bid`: the requester buys the asset with USDC. `Ask`: the requester sells it. */
export type Side = "Bid" | "Ask";
/** What a credential may do: look, trade, pay out. */
export type Scope = "read" | "trade" | "withdraw";

/** An outcome token: never an asset id alone. Asset ids are `0x` hex and are compared as numbers by the service. */
export type MarketAsset = { venue_id: Venue; asset_id: string };

/** A login: `access_token` is good until `expires_at`. */
export type Session = {
  access_token: string;
  token_type: "Bearer";
  /** Seconds. */
  expires_in: number;
  expires_at: string;
  user_id: string;
  scopes: Scope[];
};

/** A key without its secret. `allowed_ips` null: from anywhere; `expires_at` null: until revoked; `last_used_at` may lag a minute. */
export type ApiKey = {
  api_key_id: string;
  label: string;
  scopes: Scope[];
  created_at: string;
  expires_at: string | null;
  allowed_ips: string[] | null;
  last_used_at: string | null;
  revoked_at: string | null;
  minted_by: "session" | "operator";
};

/** A key with its `secret`, which is told this once. */
export type NewApiKey = ApiKey & { secret: string };

/** Opens one socket before `expires_at`. */
export type Ticket = { ticket: string; expires_at: string; scopes: Scope[] };

/** The owner, kind and scopes of the credential that asked. */
export type WhoAmI = {
  user_id: string;
  credential: "session" | "api_key";
  api_key_id: string | null;
  scopes: Scope[];
  server_time: string;
};

/** Something that happened to the account; `actor` is the user, or `operator:<name>`. */
export type AuditEvent = {
  audit_event_id: string;
  kind: string;
  actor: string;
  api_key_id: string | null;
  ip: string | null;
  subject_id: string | null;
  created_at: string;
};

/** The same instant twice: RFC 3339, and milliseconds since 1970. */
export type ServerTime = { server_time: string; unix_ms: number };

/** What the deployment offers; fees in basis points of the USDC amount. */
export type ServiceConfig = {
  chains: {
    chain: string;
    chain_id: number;
    usdc: string;
    vault: string;
    required_confirmations: number;
    default: boolean;
  }[];
  venues: {
    venue_id: Venue;
    chain: string;
    outcome_tokens: string;
    paused: boolean;
    taker_fee_bps: number;
    maker_fee_bps: number;
  }[];
  limits: Record<string, number | string>;
  withdrawals_paused: boolean;
};

/** Where to send USDC and outcome tokens on `chain`; `nonce` counts the user's addresses there. */
export type DepositAddress = {
  address: string;
  chain: string;
  created_at: string;
  current: boolean;
  nonce: number;
};

/** Native units: 1 USDC is 1_000_000n. */
export type UsdcBalance = {
  /** Can be used. */
  balance: bigint;
  /** Set aside behind open quotes and withdrawals under way. */
  pending_balance: bigint;
};

/** What is held of one asset, native units. Both ids are null for USDC. */
export type Balance = UsdcBalance & { venue_id: Venue | null; asset_id: string | null };

/** Why an entry was written. */
export type LedgerReason =
  | "deposit"
  | "withdrawal"
  | "reserve_rfq"
  | "reserve_trade"
  | "release"
  | "trade"
  | "fee";

/** One line of the journal. */
export type LedgerEntry = {
  /** Strictly increasing; a key to deduplicate by. */
  entry_id: number;
  account: "available" | "pending";
  asset_id: string | null;
  venue: Venue | null;
  /** Negative for a debit. */
  delta: bigint;
  reason: LedgerReason;
  ref_id: string;
  created_at: string;
  /** The sub-account's balance of that asset after the entry. */
  balance_after: bigint;
};

/** A transfer to a deposit address; `amount` in native units, both ids null for USDC. */
export type Deposit = {
  deposit_id: string;
  chain: string;
  address: string;
  venue_id: Venue | null;
  asset_id: string | null;
  amount: bigint;
  transaction_hash: string;
  block_number: number;
  confirmations: number;
  required_confirmations: number;
  status: "confirming" | "credited" | "orphaned" | "quarantined";
  created_at: string;
  credited_at: string | null;
};

/** A payment out; `amount` in native units, both ids null for USDC. */
export type Withdrawal = {
  withdrawal_id: string;
  job_id: string;
  client_withdrawal_id: string;
  chain: string;
  venue_id: Venue | null;
  asset_id: string | null;
  amount: bigint;
  to_address: string;
  status: "queued" | "submitted" | "settled" | "failed";
  /** May change until it is settled. */
  transaction_hash: string | null;
  failure: { code: "payment_reverted" | "operator_failed"; message: string } | null;
  created_at: string;
  updated_at: string;
};

/** Someone asks for a price of `amount` native units. */
export type QuoteRequest = {
  request_id: string;
  /** Null unless the requester disclosed it or is the caller. */
  user_id: string | null;
  venue_id: Venue;
  asset_id: string;
  amount: bigint;
  side: Side;
  status: "open" | "matched" | "cancelled" | "expired";
  disclose_identity: boolean;
  created_at: string;
  expires_at: string;
  /** For its owner only: null without open quotes. */
  best_price?: number | null;
  /** For its owner only. */
  quote_count?: number;
};

/** A firm offer; who made it is never told. */
export type Quote = {
  quote_id: string;
  request_id: string;
  venue_id: Venue;
  asset_id: string;
  amount: bigint;
  side: Side;
  /** Scaled by 1e6. */
  price: number;
  /** What the buyer pays: ceil(amount × price / 1e6). */
  usdc_amount: bigint;
  /** The reader's own. */
  fee: bigint;
  status: "open" | "accepted" | "cancelled" | "expired" | "rejected";
  created_at: string;
  expires_at: string;
};

/** A trade that has settled, from the reader's side. */
export type Match = {
  match_id: string;
  request_id: string;
  quote_id: string;
  venue_id: Venue;
  asset_id: string;
  side: Side;
  amount: bigint;
  price: number;
  usdc_amount: bigint;
  /** The reader's own. */
  fee: bigint;
  role: "requester" | "maker";
  status: "settled";
  created_at: string;
};
