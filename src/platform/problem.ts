/** The closed table of errors (RFC 9457). Verbs throw `Problem`; one place turns it into HTTP or a socket frame. */

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
  ticket_invalid: [401, "The ticket is unknown, used or expired"],
  registration_closed: [403, "Registration is closed"],
  account_frozen: [403, "The account is frozen"],
  ip_not_allowed: [403, "The key may not be used from this address"],
  session_required: [403, "This call needs a session"],
  api_key_required: [403, "This call needs an API key"],
  session_cannot_withdraw: [403, "A session cannot withdraw"],
  scope_missing: [403, "The credential lacks the scope"],
  not_request_owner: [403, "The request belongs to someone else"],
  not_quote_owner: [403, "The quote belongs to someone else"],
  route_unknown: [404, "There is no such route"],
  request_unknown: [404, "There is no such request"],
  quote_unknown: [404, "There is no such quote"],
  withdrawal_unknown: [404, "There is no such withdrawal"],
  api_key_unknown_id: [404, "There is no such API key"],
  chain_unknown: [404, "There is no such chain"],
  method_not_allowed: [405, "The method is not allowed here"],
  quote_expired: [409, "The quote has expired"],
  quote_not_open: [409, "The quote is not open"],
  request_not_open: [409, "The request is not open"],
  request_expired: [409, "The request has expired"],
  own_request: [409, "A requester cannot quote their own request"],
  insufficient_funds: [409, "Not enough available funds"],
  balance_limit: [409, "A balance would pass its limit"],
  client_withdrawal_id_reused: [409, "The client_withdrawal_id was used with other terms"],
  withdrawal_amount_limit: [409, "The amount is outside the limits of a withdrawal"],
  withdrawal_daily_limit: [409, "The daily withdrawal limit is reached"],
  chain_liquidity: [409, "The chain does not hold enough USDC"],
  destination_refused: [409, "Payments to this address failed repeatedly"],
  idempotency_in_progress: [409, "The same idempotency key is being processed"],
  deposit_address_limit: [409, "Too many deposit addresses"],
  open_request_limit: [409, "Too many open requests"],
  open_quote_limit: [409, "Too many open quotes"],
  api_key_limit: [409, "Too many live API keys"],
  venue_paused: [409, "The venue is paused"],
  email_taken: [409, "The email is taken"],
  body_too_large: [413, "The body is too large"],
  content_type_unsupported: [415, "The content type is not supported"],
  idempotency_key_reused: [422, "The idempotency key was used with another body"],
  websocket_required: [426, "A websocket upgrade is required"],
  rate_limited: [429, "Too many requests"],
  socket_limit: [429, "Too many sockets"],
  login_throttled: [429, "Too many login attempts"],
  internal: [500, "Internal error"],
  unavailable: [503, "The service is unavailable"],
  withdrawals_paused: [503, "Withdrawals are paused"],
} as const satisfies Record<string, readonly [status: number, title: string]>;

export type ProblemCode = keyof typeof PROBLEMS;
export const PROBLEM_CODES = Object.keys(PROBLEMS).map((code) => code as ProblemCode);

export type FieldError = { readonly path: string; readonly message: string };

/** A problem as plain data: what crosses a Durable Object call, where error classes are lost. */
export type ProblemData = {
  readonly code: ProblemCode;
  readonly detail: string;
  /** Members of their own beside the standard ones, e.g. `available` and `required`. */
  readonly extensions?: Readonly<Record<string, unknown>>;
  readonly errors?: readonly FieldError[];
  readonly retryAfterSecs?: number;
  /** Response fields that belong to the problem, such as `allow` or `ratelimit`. */
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

export function invalidRequest(errors: readonly FieldError[]): Problem {
  const named = errors.map((error) => `${error.path}: ${error.message}`).join("; ");
  return new Problem({ code: "invalid_request", detail: named, errors });
}

/**
 * The service cannot answer now. `outcome` says whether anything may have been done: after `unknown`, only what is
 * idempotent or carries an idempotency key may be repeated.
 */
export function unavailable(
  outcome: "none" | "unknown",
  detail = "The database did not answer. Try again shortly.",
): Problem {
  return new Problem({ code: "unavailable", detail, extensions: { outcome }, retryAfterSecs: 1 });
}

export function problemStatus(code: ProblemCode): number {
  return PROBLEMS[code][0];
}

/** The wire form. `requestId` is the server's x-request-id, or a fresh UUID for a socket command. */
export function problemBody(data: ProblemData, requestId: string): Record<string, unknown> {
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
