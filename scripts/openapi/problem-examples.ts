/** An example of every error code. The type of EXAMPLES requires one for each code. */
import { PROBLEM_CODES, problemBody, type ProblemCode } from "../../src/platform/problem.ts";
import { SAMPLE } from "./samples.ts";

const { request_id: REQUEST, quote_id: QUOTE, match_id: MATCH } = SAMPLE;
const X_REQUEST_ID = "7f0c1c52-6a2e-4b1d-9a55-0d6a3c1c9b11";

type Example = readonly [detail: string, extensions?: Readonly<Record<string, unknown>>];

const EXAMPLES: Readonly<Record<ProblemCode, Example>> = {
  not_paired: ["venue_one:0x1 has no complement."],
  invalid_request: ["body.price: must be an integer from 1 to 1000000"],
  credentials_missing: ["Send Authorization: Bearer, or APIKEY with its timestamp and signature."],
  session_invalid: ["The session has ended."],
  session_expired: ["The session expired at 2026-11-20T10:00:00.000Z."],
  timestamp_malformed: ["X-Hmac-Timestamp must be Unix milliseconds in 1 to 16 decimal digits."],
  api_key_unknown: ["No such API key."],
  timestamp_outside_tolerance: [
    "The timestamp is more than 30000 ms from the server's time.",
    { server_time: "2026-11-20T10:00:00.000Z", skew_ms: -42_000 },
  ],
  signature_invalid: [
    "The signature does not verify. Compare `signed` with what you signed. The key is the text of " +
      "the secret, not decoded.",
    {
      signed: {
        timestamp: "1795168800000",
        method: "GET",
        path_and_query: `/rfq/quote?request_id=${REQUEST}`,
        body_sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        body_bytes: 0,
      },
    },
  ],
  api_key_revoked: ["The API key has been revoked."],
  api_key_expired: ["The API key expired at 2026-11-20T10:00:00.000Z."],
  login_failed: ["The email address or the password is wrong."],
  password_required: ["The session is older than 300 seconds. Send the password, or log in again."],
  totp_required: ["The account has TOTP. Send the code of your authenticator."],
  totp_invalid: [
    "The code is wrong, or was used before. Wait for the next code of your authenticator.",
  ],
  ticket_invalid: ["The ticket is unknown, used or expired. Request a new one."],
  registration_closed: ["Registration is closed. The operator creates accounts."],
  account_frozen: ["The account is frozen. Contact the operator.", { frozen_by: "operator" }],
  security_hold: [
    "The operator reset the account. This is possible from 2026-11-21T10:00:00.000Z on.",
    { until: "2026-11-21T10:00:00.000Z" },
  ],
  ip_not_allowed: ["Your IP address is not in this key's allow list."],
  session_required: ["This operation requires a session."],
  api_key_required: ["This operation requires an API key."],
  session_cannot_withdraw: ["A withdrawal requires an API key with the scope withdraw."],
  scope_missing: [
    "The credential lacks the scope trade.",
    { required_scope: "trade", granted_scopes: ["read"] },
  ],
  not_request_owner: ["The request belongs to someone else."],
  not_quote_owner: ["The quote belongs to someone else."],
  route_unknown: ["No such path."],
  request_unknown: [`There is no request ${REQUEST}.`],
  quote_unknown: [`There is no quote ${QUOTE}.`],
  match_unknown: ["You have no such match."],
  webhook_unknown: ["You have no such webhook."],
  market_unknown: ["venue_one:0xab is not listed. GET /markets lists the markets."],
  withdrawal_address_unknown: ["You have no such withdrawal address."],
  withdrawal_unknown: ["You have no such withdrawal."],
  api_key_unknown_id: ["You have no API key with this id."],
  liability_unknown: ["You had nothing of the asset at the time of the proof."],
  chain_unknown: ["This deployment does not serve that chain. GET /config lists its chains."],
  method_not_allowed: ["This path supports GET, HEAD."],
  deadline_passed: [
    "The command was not carried out before 2026-11-20T10:00:00.000Z.",
    { server_time: "2026-11-20T10:00:00.120Z" },
  ],
  quote_expired: [`Quote ${QUOTE} expired at 2026-11-20T10:00:00.000Z.`],
  quote_not_open: [`Quote ${QUOTE} is accepted.`, { quote_status: "accepted", match_id: MATCH }],
  request_not_open: [`Request ${REQUEST} is matched.`, { match_id: MATCH }],
  request_expired: [`Request ${REQUEST} has expired.`],
  no_quote_within: [
    `No open quote on request ${REQUEST} has that price or a better one.`,
    { best_price: 660_000 },
  ],
  replace_mismatch: [`Quote ${QUOTE} is of another request or the other side.`],
  side_mismatch: [`Request ${REQUEST} is for Bid, not Ask.`],
  own_request: ["You cannot quote your own request."],
  cancel_after_passed: [
    "The cancel-after timer of this credential has run out. Set it again to place quotes.",
    { cancel_at: "2026-11-20T10:00:00.000Z" },
  ],
  price_out_of_range: [
    "The price is too far from the last one. If you mean it, send confirm_price.",
    { last_price: 650_000, max_deviation: 50_000 },
  ],
  protection_tripped: [
    "Your protection has tripped. It ends at 2026-11-20T10:05:00.000Z.",
    { blocked_until: "2026-11-20T10:05:00.000Z" },
  ],
  insufficient_funds: [
    "This needs 1000000 units of venue_four:0xab; 0 are available. " +
      "With backing usdc it would reserve 350000 units of USDC.",
    { available: "0x0", required: "0xf4240", usdc_reserve: "0x55730" },
  ],
  balance_limit: ["A balance would exceed 2^62 native units."],
  client_withdrawal_id_reused: [
    "This client_withdrawal_id was used with other terms. Choose a new one.",
  ],
  request_amount_limit: [
    "The amount is below the venue's minimum of 1000000 native units.",
    { minimum: "0xf4240" },
  ],
  withdrawal_amount_limit: [
    "The amount is outside the limits of one withdrawal.",
    { minimum: "0xf4240", maximum: "0x174876e800" },
  ],
  withdrawal_daily_limit: [
    "You have reached the limit of 100 withdrawals in 24 hours, failed ones included.",
    { remaining: 0 },
  ],
  chain_liquidity: [
    "polygon cannot pay that much of this asset now. Withdraw less, or on another chain.",
    { available: "0x5f5e100" },
  ],
  address_not_listed: [
    "The account's policy allows only addresses of the address book. This one is not listed.",
    { active_from: null },
  ],
  withdrawal_address_limit: ["You have reached the limit of 100 addresses. Remove one first."],
  withdrawal_not_approvable: [
    "The withdrawal is queued, so it needs no approval.",
    { withdrawal_status: "queued" },
  ],
  withdrawal_not_cancellable: [
    "The withdrawal is submitted, so it can no longer be cancelled.",
    { withdrawal_status: "submitted" },
  ],
  destination_refused: ["The service does not pay to this address."],
  deposit_address_limit: [
    "You have reached the limit of 50 deposit addresses on a chain. Earlier ones stay valid.",
  ],
  open_request_limit: ["You have reached the limit of 200 open requests."],
  open_quote_limit: ["You have reached the limit of 1000 open quotes."],
  webhook_limit: ["You have reached the limit of 2 webhooks. Remove one first."],
  api_key_limit: ["You have reached the limit of 100 API keys. Revoke one first."],
  market_closed: ["The market is closed."],
  venue_paused: ["venue_one is paused."],
  totp_not_enabled: ["The account has no TOTP."],
  account_limit: [
    "The trade exceeds the limit of the account's policy for a day.",
    {
      limit: "max_trade_usdc_per_day",
      maximum: "0x3b9aca00",
      used: "0x3b8b87c0",
      required: "0x989680",
    },
  ],
  key_limit: [
    "The trade exceeds the API key's limit for a day.",
    { limit: "max_usdc_per_day", maximum: "0x3b9aca00", used: "0x3b8b87c0", required: "0x989680" },
  ],
  email_taken: ["A user with this email address exists."],
  events_gone: [
    "Not available, because the events after since are no longer kept. Read balances, requests, " +
      "quotes, matches, deposits and withdrawals, then continue with since=4211.",
    { last_seq: 4_211 },
  ],
  body_too_large: ["The body exceeds the limit of 65536 bytes."],
  content_type_unsupported: ["A body requires content-type: application/json."],
  idempotency_key_reused: ["This idempotency key was used with another body."],
  websocket_required: ["This path requires a websocket upgrade."],
  rate_limited: ["You have reached the limit of 2000 requests in 10 seconds (class trade)."],
  daily_limit: [
    "You have reached the limit of 10000 requests per day (UTC). Try again tomorrow.",
    { limit: "requests_per_day", max_per_day: 10_000 },
  ],
  socket_limit: ["You have reached the limit of sockets on this stream."],
  login_throttled: ["Too many login attempts. Try again in 60 seconds."],
  internal: ["An unexpected error occurred.", { outcome: "none" }],
  unavailable: ["The database did not respond. Try again shortly.", { outcome: "none" }],
  withdrawals_paused: ["Withdrawals are paused. Queued withdrawals wait; nothing was taken."],
};

/** By code, as OpenAPI example objects: `#/components/examples/<code>`. */
export function problemExamples(): Record<string, { summary: string; value: unknown }> {
  return Object.fromEntries(
    PROBLEM_CODES.map((code) => {
      const [detail, extensions] = EXAMPLES[code];
      const errors =
        code === "invalid_request"
          ? [{ path: "body.price", message: "must be an integer from 1 to 1000000" }]
          : undefined;
      const data = {
        code,
        detail,
        ...(extensions === undefined ? {} : { extensions }),
        ...(errors === undefined ? {} : { errors }),
      };
      const value = problemBody(data, X_REQUEST_ID);
      return [code, { summary: value.title, value }];
    }),
  );
}
