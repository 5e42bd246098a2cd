/**
 * The records of the service. Field names are those on the wire, so the API reference describes
 * them too. Amounts are `bigint`s in native units (6 decimals for USDC and outcome tokens). Prices
 * are integers scaled by 1e6. Timestamps are RFC 3339 in UTC with milliseconds, so they sort as
 * text.
 */
import type { ProblemBody } from "./problem.ts";

/**
 * The venue of an outcome token. `client.config()` lists those of a deployment; more may follow.
 */
export type Venue = string;
/** `Bid`: the requester buys the asset with USDC. `Ask`: the requester sells it. */
export type Side = "Bid" | "Ask";
/** `TwoWay`: the requester asks for quotes of either side and trades the one they accept. */
export type RequestSide = Side | "TwoWay";
/** What a credential may do: read data, trade, withdraw. */
export type Scope = "read" | "trade" | "withdraw";

/**
 * An outcome token. An asset id is unique only within its venue. It is `0x` hex; the service
 * ignores case and leading zeros.
 */
export type MarketAsset = { venue_id: Venue; asset_id: string };

/** A login session. */
export type Session = {
  /** Bearer token (RFC 6750), valid until `expires_at`. */
  access_token: string;
  token_type: "Bearer";
  /** Seconds until it expires. */
  expires_in: number;
  expires_at: string;
  user_id: string;
  scopes: Scope[];
};

/** An API key without its secret. */
export type ApiKey = {
  api_key_id: string;
  label: string;
  scopes: Scope[];
  created_at: string;
  /** Null: the key never expires. */
  expires_at: string | null;
  /** IPv4 or IPv6 addresses or CIDR ranges. Null: any address. */
  allowed_ips: string[] | null;
  /** Updated with up to a minute of delay. */
  last_used_at: string | null;
  revoked_at: string | null;
  minted_by: "session" | "operator";
  limits: KeyLimits | null;
  /** Whether requests and quotes need an idempotency key in the body. The client sends one. */
  require_idempotency: boolean;
  /** Whether the key withdraws only to addresses of the owner's address book. */
  only_listed: boolean;
  /** With `only_listed`: only those of them. Null: all. */
  addresses: string[] | null;
  /** From when the key has its scopes. Null until the operator has approved it. */
  active_from: string | null;
  approved_at: string | null;
};

/** Limits of an API key, in native units of USDC. Null: no limit. */
export type KeyLimits = {
  /** Venues on which the key may request, quote and accept. */
  venues: Venue[] | null;
  /** The most that one quote or accept may give. Tokens count as 1 USDC each. */
  max_usdc_per_trade: bigint | null;
  /** The most that the matches of the last day and the open quotes may give together. */
  max_usdc_per_day: bigint | null;
};

/** A new API key. `secret` is returned only once. */
export type NewApiKey = ApiKey & { secret: string };

/** A ticket that opens one websocket before `expires_at`. */
export type Ticket = { ticket: string; expires_at: string; scopes: Scope[] };

/** The owner, kind and scopes of a credential. */
export type WhoAmI = {
  user_id: string;
  credential: "session" | "api_key";
  api_key_id: string | null;
  scopes: Scope[];
  /** Limits of the API key. Null: none. */
  limits: KeyLimits | null;
  /** At most 5 s old. Null for an API key. */
  totp: Totp | null;
  /** What counts against `max_usdc_per_day`. Null if the key has no such limit. */
  used: bigint | null;
  server_time: string;
};

/** State of the second factor of an account. */
export type Totp = {
  /** Whether logins and calls that change who may act need a code. */
  enabled: boolean;
  recovery_codes_left: number;
  /** When a requested removal takes effect. Null: none was requested. */
  removal_at: string | null;
  /** From when another device counts instead of the present one. Null: none waits. */
  replacement_at: string | null;
};

/** Limits that a user sets on the whole account, in native units of USDC. Null: no limit. */
export type Policy = {
  /** False: sessions have only the scope read. */
  sessions_trade: boolean;
  /** The most that all credentials may give in trades of the last day and open quotes. */
  max_trade_usdc_per_day: bigint | null;
  /** The most that withdrawals of the last day may add up to. */
  withdraw_max_usdc_per_day: bigint | null;
  /** True: only active addresses of the address book receive withdrawals. */
  withdraw_listed_only: boolean;
  /** A withdrawal that lifts the last day's unapproved sum above it waits for approval. */
  withdraw_approval_above: bigint | null;
};

/** The policy that applies, and the one that applies from `active_from`. */
export type PolicyState = {
  policy: Policy;
  pending: Policy | null;
  active_from: string | null;
  used: { trade_usdc: bigint; withdraw_usdc: bigint };
};

/** An entry of the audit log of the account. */
export type AuditEvent = {
  audit_event_id: string;
  /** For example `login` or `api_key_created`; the list may grow. */
  kind: string;
  /** `session`, `api_key`, `password`, `unknown` or `operator:<name>`. */
  actor: string;
  api_key_id: string | null;
  ip: string | null;
  /** Id of the record concerned, for example an API key. */
  subject_id: string | null;
  created_at: string;
};

/** `slow`: later than usual. `unknown`: not measured for three minutes. */
export type ComponentStatus = "ok" | "slow" | "paused" | "unknown";

/** Whether the parts of the service work, of all chains and venues together. */
export type ServiceStatus = {
  trading: ComponentStatus;
  deposits: ComponentStatus;
  withdrawals: ComponentStatus;
  measured_at: string | null;
};

/** The time of the service as RFC 3339 and in milliseconds since 1970. */
export type ServerTime = { server_time: string; unix_ms: number };

/** A JWK set (RFC 7517) of Ed25519 keys, the newest first. */
export type SigningKeys = {
  keys: { kty: "OKP"; crv: "Ed25519"; x: string; kid: string; use: "sig"; alg: "EdDSA" }[];
};

/** An asset in the record of a day. Native units. */
export type AssetLiability = {
  /** Null: USDC. */
  venue_id: string | null;
  asset_id: string | null;
  /** Root of the tree over the users' balances, as 0x hex. */
  root: string;
  /** What is owed to the users, which is the sum of the tree. */
  total: bigint;
  leaves: number;
  /** What the service has earned, not in the total. */
  fees: bigint;
  /** What the service has lost and owes itself. */
  losses: bigint;
  /** USDC that pairs hold for the tokens that they issued, not in the total. */
  pairs: bigint;
  /** Tokens that pairs issued, which no chain holds. */
  issued_by_pairs: bigint;
  /** `settling`: paid by the vault, but not settled in the journal yet. */
  chains: { chain: string; issued: bigint; settling: bigint; held: bigint }[];
};

/** What the service owed its users once a day, and what the chains held for it. */
export type Liabilities = {
  day: string;
  at: string;
  /** The last entry of the ledger that the balances contain. */
  entry_id: number;
  commit_group: number;
  /** Days of earlier records, newest first. */
  earlier: string[];
  /** The blocks after which the holdings were read. */
  blocks: { chain: string; block: number; block_hash: string }[];
  owed: AssetLiability[];
};

/** The way from a user's leaf to the root of an asset, which `verifyLiability` checks. */
export type LiabilityProof = {
  day: string;
  /** Null: USDC. */
  venue_id: string | null;
  asset_id: string | null;
  user_id: string;
  /** Available, promised and pending together. */
  amount: bigint;
  salt: string;
  path: { side: "left" | "right"; sum: bigint; hash: string }[];
};

/** Chains, venues and limits of a deployment. */
export type ServiceConfig = {
  /** Version of the service. */
  version: string;
  chains: {
    chain: string;
    chain_id: number;
    usdc: string;
    vault: string;
    required_confirmations: number;
    /** Deposits of USDC below it are credited once their address has received this much. */
    min_deposit: bigint;
    /** Smallest withdrawal. */
    min_withdrawal: bigint;
    /** Largest withdrawal of USDC. The vault may allow less of other assets. */
    max_withdrawal: bigint;
    /** RPC endpoints that must agree before money moves: 1 or 2. */
    witnesses: number;
    /** A block explorer, whose pages of transactions are at `/tx/<hash>`. Null: none. */
    explorer: string | null;
    default: boolean;
  }[];
  venues: {
    venue_id: Venue;
    /** Null: its tokens exist in this service only, in pairs. */
    chain: string | null;
    outcome_tokens: string | null;
    /** What the tokens of its pairs pay. */
    collateral: string | null;
    /** As `min_deposit` of a chain, for each outcome token of the venue. */
    min_deposit: bigint;
    /** Smallest request: in units of the token, or of USDC if its size is in USDC. */
    min_request: bigint;
    /** A trade of fewer units counts for no candle, ticker or last price. */
    min_priced_trade: bigint;
    paused: boolean;
    /** Fee of the requester in basis points of the USDC amount. */
    taker_fee_bps: number;
    /** Fee of the maker in basis points of the USDC amount. */
    maker_fee_bps: number;
  }[];
  /** Whether requests are only for listed markets. */
  listed_only: boolean;
  /** Whether `auth.register` makes accounts. Otherwise the operator does. */
  registration_open: boolean;
  /** By name. Amounts are hex, counts and seconds are numbers. */
  limits: Record<string, number | string>;
  withdrawals_paused: boolean;
};

/** What an asset is, and until when it trades. */
export type Market = {
  venue_id: Venue;
  asset_id: string;
  /** The question, which all its outcomes at the venue share. Null: the title identifies it. */
  event_id: string | null;
  /** The question that the market settles. */
  title: string;
  /** The outcome for which the token pays one USDC. */
  outcome: string;
  /** What decides the result, in words. */
  description: string | null;
  /** Where the rules of the result are. */
  rules_url: string | null;
  /** What the operator files it under. */
  category: string | null;
  /** Where the venue describes the market. */
  url: string | null;
  /** From then on the market is closed. Null: until the operator closes it. */
  closes_at: string | null;
  status: "open" | "closed";
  /** What one token pays, scaled by 1e6. Null until the operators have set it. */
  result: number | null;
  /** `operator`: the venue has no chain. The service pays the results of all pairs. */
  resolved_by: "operator" | "venue";
  /** Whose result the pair's tokens pay. */
  condition: string | null;
  /** Native units of such a pair that can be withdrawn now. */
  withdrawable: bigint | null;
  /** What the pair has issued for USDC, in native units. */
  issued: bigint | null;
  /** The other token of the pair. Null: not paired. */
  complement_asset_id: string | null;
  /** From then on the result of a pair is final and paid. Null: no result, or not paired. */
  settles_at: string | null;
};

/** A token that a pair issued for USDC, or took back for it. */
export type Redemption = {
  /** `ref_id` of its ledger entries. */
  redemption_id: string;
  venue_id: Venue;
  asset_id: string;
  /** Native units of the token. */
  amount: bigint;
  /** Native units of USDC that count for this token. */
  usdc_amount: bigint;
  created_at: string;
};

/** An address that credits USDC and outcome tokens sent to it on `chain`. */
export type DepositAddress = {
  address: string;
  chain: string;
  created_at: string;
  /** The newest address of the user on this chain. Older ones keep working. */
  current: boolean;
  /** Number of the address among those of the user on this chain. */
  nonce: number;
};

/** A balance in native units: 1 USDC is 1_000_000n. */
export type UsdcBalance = {
  /** Available to trade and withdraw. */
  balance: bigint;
  /** Set aside for open quotes and withdrawals in progress. */
  pending_balance: bigint;
  /** Of that, what open quotes reserve. It has no ledger entries. */
  promised: bigint;
};

/** The balance of one asset in native units. Both ids are null for USDC. */
export type Balance = UsdcBalance & { venue_id: Venue | null; asset_id: string | null };

/** What caused a ledger entry. */
export type LedgerReason =
  | "deposit"
  | "withdrawal"
  | "reserve_rfq"
  | "reserve_trade"
  | "release"
  | "trade"
  | "fee";

/** One ledger entry. `asset_id` and `venue` are null for USDC. */
export type LedgerEntry = {
  /** Strictly increasing. Deduplicate by it. */
  entry_id: number;
  account: "available" | "pending";
  asset_id: string | null;
  venue: Venue | null;
  /** Native units, negative for a debit. */
  delta: bigint;
  reason: LedgerReason;
  /** Id of the match, quote or withdrawal, or the transaction hash of the deposit. */
  ref_id: string;
  created_at: string;
  /** Balance of this account and asset after the entry, in native units. */
  balance_after: bigint;
};

/** A transfer to a deposit address. Both ids are null for USDC. */
export type Deposit = {
  deposit_id: string;
  chain: string;
  address: string;
  venue_id: Venue | null;
  asset_id: string | null;
  /** Native units. */
  amount: bigint;
  transaction_hash: string;
  block_number: number;
  confirmations: number;
  required_confirmations: number;
  /**
   * `orphaned`: its block left the chain before the deposit was credited.
   * `quarantined`: the ledger cannot hold the amount, so the operator handles it.
   * `below_minimum`: confirmed, and credited once `address` has received `min_deposit` in total.
   */
  status: "confirming" | "credited" | "orphaned" | "quarantined" | "below_minimum";
  created_at: string;
  credited_at: string | null;
};

/** A payment to an external address. Both ids are null for USDC. */
export type Withdrawal = {
  withdrawal_id: string;
  job_id: string;
  client_withdrawal_id: string;
  chain: string;
  venue_id: Venue | null;
  asset_id: string | null;
  /** Native units. */
  amount: bigint;
  to_address: string;
  status: "awaiting_approval" | "queued" | "submitted" | "settled" | "failed" | "cancelled";
  /** When a withdrawal that is not approved is cancelled. Null if it needs no approval. */
  approval_expires_at: string | null;
  /** May change until the withdrawal is settled. Null before it is submitted. */
  transaction_hash: string | null;
  /** Why a failed or cancelled withdrawal was not paid. Null if its owner cancelled it. */
  failure: {
    code: "payment_reverted" | "operator_failed" | "approval_expired";
    message: string;
  } | null;
  created_at: string;
  updated_at: string;
};

/** The size of a request. It has one of the two. */
export type RequestSize = {
  /** Native units of the asset, at least 1. */
  amount?: bigint;
  /**
   * Native units of USDC. A quote is for the tokens that they buy at its price, rounded down; fees
   * come on top.
   */
  usdc_amount?: bigint;
};

/** An entry of the address book. Withdrawals may go there from `active_from` on. */
export type WithdrawalAddress = {
  address_id: string;
  chain: string;
  address: string;
  label: string;
  created_at: string;
  active_from: string;
};

/** A request for quotes. The requester buys (`Bid`) or sells (`Ask`) the asset. */
export type QuoteRequest = RequestSize & {
  request_id: string;
  /** The requester. Null unless disclosed, or the request is the user's own. */
  user_id: string | null;
  venue_id: Venue;
  asset_id: string;
  side: RequestSide;
  status: "open" | "matched" | "cancelled" | "expired";
  disclose_identity: boolean;
  /** The requester's own name for it. Only the requester receives it. */
  label: string | null;
  created_at: string;
  expires_at: string;
  /**
   * Scaled by 1e6. Null without open quotes and on a two-way request. Only the requester receives
   * it.
   */
  best_price?: number | null;
  /** The lowest Bid and the highest Ask of a two-way request. Only the requester receives them. */
  best_prices?: { Bid: number | null; Ask: number | null };
  /** Number of open quotes. Only the requester receives it. */
  quote_count?: number;
  /**
   * The worst price at which a quote is accepted as soon as it is placed, scaled by 1e6. Only the
   * requester receives it. Null: none, or the request has ended.
   */
  accept_price?: number | null;
  /** The side of `accept_price`. Null without it. */
  accept_side?: Side | null;
};

/**
 * Why a quote ended. Its requester sees `cancelled` for `replaced`, `timeout`, `protection`,
 * `disconnect` and `outbid`.
 */
export type CloseReason =
  | "accepted"
  | "rejected"
  | "cancelled"
  | "expired"
  | "replaced"
  | "timeout"
  | "protection"
  | "disconnect"
  | "outbid";

/** A firm quote on a request. It does not disclose its maker. */
export type Quote = {
  quote_id: string;
  request_id: string;
  venue_id: Venue;
  asset_id: string;
  /** Native units of the asset. */
  amount: bigint;
  /** The requester's side. */
  side: Side;
  /** USDC per unit, scaled by 1e6. */
  price: number;
  /** What the buyer pays the seller: ceil(amount × price / 1e6), native units of USDC. */
  usdc_amount: bigint;
  /** The user's own fee if this quote is accepted, native units of USDC. */
  fee: bigint;
  /**
   * What it set aside when it was placed: the asset for a Bid, USDC and the maker's fee for an Ask.
   * Only the maker receives it.
   */
  reserve: { venue_id: Venue | null; asset_id: string | null; amount: bigint } | null;
  /** The maker's own name for it. Only the maker receives it. */
  label: string | null;
  status: "open" | "accepted" | "cancelled" | "expired" | "rejected";
  /** Null while the quote is open. */
  close_reason: CloseReason | null;
  /** The quote that replaced it. Only the maker receives it. */
  replaced_by: string | null;
  created_at: string;
  expires_at: string;
  /** Only in the result of placing it, if the commit that placed it accepted it. */
  match?: Match;
};

/** A trade of anyone, as the tape shows it. */
export type Trade = {
  match_id: string;
  venue_id: Venue;
  asset_id: string;
  /** The requester's side. */
  side: Side;
  /** Native units of the asset. */
  amount: bigint;
  /** USDC per unit, scaled by 1e6. */
  price: number;
  /** What the buyer paid the seller, native units of USDC. */
  usdc_amount: bigint;
  created_at: string;
};

/** What the user holds of an outcome token, and what its trades cost and brought. */
export type Position = {
  venue_id: Venue;
  asset_id: string;
  /** Native units held, reserved and promised ones included. */
  amount: bigint;
  /** Native units bought in all trades. */
  bought: bigint;
  /** What was paid for them with fees, native units of USDC. */
  spent: bigint;
  /** Native units sold in all trades. */
  sold: bigint;
  /** What was received for them less fees, native units of USDC. */
  received: bigint;
  /** `spent / bought`, scaled by 1e6 and rounded up. Null if none was bought. */
  average_price: number | null;
  /**
   * `received − spent × sold / bought`, native units of USDC, rounded down, negative for a loss.
   * Null if none was bought.
   */
  realized: bigint | null;
  /** `amount × (result ?? last_price)`, native units of USDC, rounded down. Null without both. */
  value: bigint | null;
  /** What one token pays, scaled by 1e6. Null until the market has a result. */
  result: number | null;
  /** Price of the newest trade. Null without one. */
  last_price: number | null;
  last_price_at: string | null;
};

/** The trades of an asset in a minute, an hour or a UTC day. */
export type Candle = {
  start: string;
  /** Prices, scaled by 1e6. */
  open: number;
  high: number;
  low: number;
  close: number;
  /** Native units of the asset. */
  amount: bigint;
  /** What they cost without fees, native units of USDC. */
  usdc_amount: bigint;
  trades: number;
  /** Whether it changes no more. */
  final: boolean;
};

/** What an asset traded at in the last day: the current UTC hour and the 23 before it. */
export type Ticker = {
  venue_id: Venue;
  asset_id: string;
  /** Scaled by 1e6. */
  last_price: number;
  last_price_at: string;
  /** `last_price` less the first price of the last day, scaled by 1e6. */
  change: number;
  /** Native units of the asset. */
  amount: bigint;
  /** What they cost without fees, native units of USDC. */
  usdc_amount: bigint;
  trades: number;
  /** The last price of each of the 24 hours, oldest first. Null where nobody traded. */
  prices: (number | null)[];
};

/** What became of one of several quotes. */
export type QuoteResult = {
  /** Null if it was rejected. */
  quote: Quote | null;
  /** Why it was rejected. Null if it was placed. */
  problem: ProblemBody | null;
  /** Whether an earlier call with the same idempotency key placed it. */
  replayed: boolean;
};

/** A settled trade, from the user's side. */
export type Match = {
  match_id: string;
  request_id: string;
  quote_id: string;
  venue_id: Venue;
  asset_id: string;
  /** The requester's side. */
  side: Side;
  /** Native units of the asset. */
  amount: bigint;
  /** USDC per unit, scaled by 1e6. */
  price: number;
  /** What the buyer paid the seller, native units of USDC. */
  usdc_amount: bigint;
  /** The user's own fee, native units of USDC. */
  fee: bigint;
  role: "requester" | "maker";
  /** The user's own label of the request or quote. */
  label: string | null;
  /**
   * On a match as the maker, if `usdc` or `complement` backed the quote: the token that the maker
   * got for a Bid or gave for an Ask. Else null.
   */
  complement_asset_id: string | null;
  status: "settled";
  created_at: string;
};

/** A maker's protection against too many matches in a short time. */
export type Protection = {
  /** Seconds before each match within which matches are counted. Null: never saved. */
  window_secs: number | null;
  /** Matches as maker within the window that trip it. Null: no limit. */
  max_matches: number | null;
  /** Sum of `usdc_amount` within the window that trips it, native units. Null: no limit. */
  max_usdc: bigint | null;
  /** Seconds for which new quotes are rejected after a trip. Null: until it is reset. */
  cooldown_secs: number | null;
  /** How far a quote may be from the last price, scaled by 1e6. Null: no limit. */
  max_deviation: number | null;
  /** When it tripped. Null if that was reset or its cooldown has ended. */
  tripped_at: string | null;
  /** When new quotes are accepted again. Null with `tripped_at`: at a reset. */
  blocked_until: string | null;
  /** When the quotes of this credential end, unless it calls `cancelAfter` before. */
  cancel_at: string | null;
};
