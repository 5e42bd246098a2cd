/** All errors of the public interface (RFC 9457). Verbs throw `Problem`. */

const PROBLEMS = {
  invalid_request: [400, "The request is not valid"],
  credentials_missing: [401, "Credentials are missing"],
  session_invalid: [401, "The session is not valid"],
  session_expired: [401, "The session has expired"],
  timestamp_malformed: [401, "X-Hmac-Timestamp is missing or malformed"],
  api_key_unknown: [401, "The API key is unknown"],
  timestamp_outside_tolerance: [401, "The timestamp is outside the tolerance"],
  signature_invalid: [401, "The signature does not verify"],
  api_key_revoked: [401, "The API key has been revoked"],
  api_key_expired: [401, "The API key has expired"],
  login_failed: [401, "Email or password is wrong"],
  password_required: [401, "The password is required"],
  totp_required: [401, "A one-time code is required"],
  totp_invalid: [401, "The one-time code is not valid"],
  ticket_invalid: [401, "The ticket is unknown, used or expired"],
  registration_closed: [403, "Registration is closed"],
  account_frozen: [403, "The account is frozen"],
  security_hold: [403, "The account was reset by the operator"],
  ip_not_allowed: [403, "The IP address is not allowed for this key"],
  session_required: [403, "A session is required"],
  api_key_required: [403, "An API key is required"],
  session_cannot_withdraw: [403, "A session cannot withdraw"],
  scope_missing: [403, "The credential lacks the required scope"],
  not_request_owner: [403, "The request belongs to someone else"],
  not_quote_owner: [403, "The quote belongs to someone else"],
  route_unknown: [404, "No such path"],
  request_unknown: [404, "No such request"],
  quote_unknown: [404, "No such quote"],
  match_unknown: [404, "No such match"],
  webhook_unknown: [404, "No such webhook"],
  market_unknown: [404, "The asset is not listed"],
  withdrawal_address_unknown: [404, "No such withdrawal address"],
  withdrawal_unknown: [404, "No such withdrawal"],
  api_key_unknown_id: [404, "No such API key"],
  liability_unknown: [404, "No such proof of liabilities"],
  chain_unknown: [404, "No such chain"],
  method_not_allowed: [405, "The method is not allowed on this path"],
  deadline_passed: [409, "The deadline has passed"],
  quote_expired: [409, "The quote has expired"],
  quote_not_open: [409, "The quote is not open"],
  request_not_open: [409, "The request is not open"],
  request_expired: [409, "The request has expired"],
  no_quote_within: [409, "No open quote has this price or a better one"],
  request_amount_limit: [409, "The request is too small"],
  replace_mismatch: [409, "The quote to replace is of another request or side"],
  side_mismatch: [409, "The quote's side is not the request's"],
  own_request: [409, "A requester cannot quote their own request"],
  cancel_after_passed: [409, "The cancel-after timer has run out"],
  price_out_of_range: [409, "The price is too far from the last one"],
  protection_tripped: [409, "The maker's protection has tripped"],
  key_limit: [409, "A limit of the API key would be exceeded"],
  account_limit: [409, "A limit of the account's policy would be exceeded"],
  insufficient_funds: [409, "Insufficient available funds"],
  balance_limit: [409, "A balance would exceed its limit"],
  client_withdrawal_id_reused: [409, "The client_withdrawal_id was used with different terms"],
  withdrawal_amount_limit: [409, "The amount is outside the withdrawal limits"],
  withdrawal_daily_limit: [409, "The daily withdrawal limit has been reached"],
  chain_liquidity: [409, "The chain does not hold enough USDC"],
  address_not_listed: [409, "The address is not an active one of the address book"],
  withdrawal_address_limit: [409, "Too many withdrawal addresses"],
  withdrawal_not_approvable: [409, "The withdrawal does not wait for approval"],
  withdrawal_not_cancellable: [409, "The withdrawal can no longer be cancelled"],
  destination_refused: [409, "The service does not pay to this address"],
  deposit_address_limit: [409, "Too many deposit addresses"],
  open_request_limit: [409, "Too many open requests"],
  open_quote_limit: [409, "Too many open quotes"],
  webhook_limit: [409, "Too many webhooks"],
  api_key_limit: [409, "Too many API keys"],
  not_paired: [409, "The asset is not one of a pair"],
  market_closed: [409, "The market is closed"],
  venue_paused: [409, "The venue is paused"],
  totp_not_enabled: [409, "The account has no TOTP"],
  email_taken: [409, "The email address is already in use"],
  events_gone: [410, "The events are no longer kept"],
  body_too_large: [413, "The body is too large"],
  content_type_unsupported: [415, "The content type is not supported"],
  idempotency_key_reused: [422, "The idempotency key was used with a different body"],
  websocket_required: [426, "A websocket upgrade is required"],
  rate_limited: [429, "Too many requests"],
  socket_limit: [429, "Too many sockets"],
  daily_limit: [429, "A daily limit has been reached"],
  login_throttled: [429, "Too many login attempts"],
  internal: [500, "Internal error"],
  unavailable: [503, "The service is unavailable"],
  withdrawals_paused: [503, "Withdrawals are paused"],
} as const satisfies Record<string, readonly [status: number, title: string]>;

export type ProblemCode = keyof typeof PROBLEMS;
export const PROBLEM_CODES = Object.keys(PROBLEMS).map((code) => code as ProblemCode);

export type FieldError = { readonly path: string; readonly message: string };

/** A problem as plain data, because error classes are lost in calls to a Durable Object. */
export type ProblemData = {
  readonly code: ProblemCode;
  readonly detail: string;
  /** Members beyond the standard ones, such as `available` and `required`. */
  readonly extensions?: Readonly<Record<string, unknown>>;
  readonly errors?: readonly FieldError[];
  readonly retryAfterSecs?: number;
  /** Response headers that belong to the problem, such as `allow` or `ratelimit`. */
  readonly headers?: Readonly<Record<string, string>>;
};

export class Problem extends Error {
  readonly data: ProblemData;
  constructor(data: ProblemData) {
    super(`${data.code}: ${data.detail}`);
    this.name = "Problem";
    this.data = data;
  }
  get status(): number {
    return problemStatus(this.data.code);
  }
}

export function problem(
  code: ProblemCode,
  detail: string,
  extensions?: Readonly<Record<string, unknown>>,
): Problem {
  return new Problem({ code, detail, ...(extensions === undefined ? {} : { extensions }) });
}

/** Limits the size of the response to a request that contains nothing but errors. */
export const MAX_FIELD_ERRORS = 50;

/** Reports the first `MAX_FIELD_ERRORS` errors, in HTTP responses and in frames of a socket. */
export function invalidRequest(all: readonly FieldError[]): Problem {
  const errors = all.slice(0, MAX_FIELD_ERRORS);
  const detail = errors.map((error) => `${error.path}: ${error.message}`).join("; ");
  return new Problem({ code: "invalid_request", detail, errors });
}

/**
 * The service cannot complete the request now. `outcome` says whether it may have taken effect.
 * After `unknown`, a caller may repeat it only if it is idempotent or has an idempotency key.
 */
export function unavailable(
  outcome: "none" | "unknown",
  detail = "The database did not respond. Try again shortly.",
): Problem {
  return new Problem({ code: "unavailable", detail, extensions: { outcome }, retryAfterSecs: 1 });
}

export function problemStatus(code: ProblemCode): number {
  return PROBLEMS[code][0];
}

/** RFC 9457, with the extensions of the code. */
export type ProblemBody = Record<string, unknown> & {
  type: string;
  title: string;
  status: number;
  code: ProblemCode;
  detail: string;
  request_id: string;
};

/** The body on the wire. `requestId` is the x-request-id, or a new UUID for a socket command. */
export function problemBody(data: ProblemData, requestId: string): ProblemBody {
  const [status, title] = PROBLEMS[data.code];
  return {
    type: `urn:rfq-custody:error:${data.code}`,
    title,
    status,
    code: data.code,
    detail: data.detail,
    request_id: requestId,
    ...data.extensions,
    ...(data.errors === undefined ? {} : { errors: data.errors }),
  };
}
