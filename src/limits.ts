/** Every limit of GET /config. A name ends in its unit: requests, bytes, `_secs`, `_per_user`. */
import * as z from "zod";
import { toHex } from "./assets/amount.ts";
import { DEFAULT_KEY_LIFE_MS, MAX_KEYS_PER_USER } from "./auth/mint-key.ts";
import { ENROLMENT_MS } from "./auth/enrol-totp.ts";
import { MAX_WAITING_PER_CALLER, MAX_WAITING_PER_NETWORK } from "./auth/hash-turns.ts";
import { LOGIN_LIMITS } from "./auth/login-throttle.ts";
import { MAX_PASSWORD_BYTES } from "./auth/password.ts";
import { MAX_ALLOWED_IPS, MIN_PASSWORD_CHARS } from "./auth/schemas.ts";
import { CODE_LIMITS } from "./auth/second-factor.ts";
import { TICKET_LIFETIME_MS } from "./auth/ws-ticket.ts";
import { MAX_DEPOSIT_ADDRESSES } from "./custody/deposit-address.ts";
import { SUMMED_ROWS } from "./custody/watcher/small-deposits.ts";
import { MAX_REVERTED_PAYMENTS } from "./custody/withdraw.ts";
import { MAX_WEBHOOKS } from "./feeds/webhooks/endpoints.ts";
import { MAX_WAITING, MAX_WAITING_MS } from "./feeds/webhooks/waiting-events.ts";
import { MAX_PAGE } from "./http/cursor.ts";
import { MAX_DEPTH, MAX_MEMBERS } from "./http/json.ts";
import {
  PUBLIC_RECORDS_PER_UNIT,
  RATE_LIMIT_FIGURES,
  RECORDS_PER_UNIT,
} from "./http/rate-limit.ts";
import { BODY_LIMIT_BYTES } from "./http/request.ts";
import { LEASE_MS, MAX_STATEMENT_ROWS } from "./ledger/statement.ts";
import type { Config } from "./platform/config.ts";
import { KEPT, OLDEST_READ } from "./platform/windows.ts";
import { MAX_FIELD_ERRORS } from "./platform/problem.ts";
import { MAX_NATIVE_UNITS } from "./platform/sql.ts";
import { CANCEL_AFTER_SECS } from "./rfq/cancel-after.ts";
import { MAX_WAITING_COMMANDS } from "./rfq/group-committer.ts";
import { MAX_EXAMINED } from "./rfq/examined-page.ts";
import { TAPE_MS } from "./rfq/list-trades.ts";
import {
  MAX_QUOTE_CALLS_IN_FLIGHT,
  MAX_QUOTES_PER_CALL,
  MAX_QUOTES_PER_FRAME,
} from "./rfq/place-quotes.ts";
import { MAX_OPEN_QUOTES_PER_MAKER, MAX_OPEN_QUOTES_PER_SIDE } from "./rfq/quote-preconditions.ts";
import { MAX_COOLDOWN_SECS, MAX_WINDOW_SECS } from "./rfq/protection.ts";
import { QUOTE_LIFE, REQUEST_LIFE } from "./rfq/schemas.ts";
import { MAX_FRAME_BYTES, MAX_FRAMES, MAX_MALFORMED_FRAMES } from "./rfq/socket-commands.ts";
import { MAX_ASSETS } from "./assets/asset-fields.ts";
import { MAX_REPLAY, MAX_SNAPSHOT_FRAME_BYTES } from "./streams/replay.ts";
import { MAX_SILENCE_MS, MAX_UNANSWERED_BYTES } from "./streams/open-sockets.ts";

type Value = number | string;
type Limit = readonly [description: string, value: Value | ((settings: Config) => Value)];

function setting(
  name: { [Name in keyof Config]: Config[Name] extends number ? Name : never }[keyof Config],
) {
  return (settings: Config): number => settings[name];
}

const LIMITS: Readonly<Record<string, Limit>> = {
  ...Object.fromEntries(
    Object.entries(RATE_LIMIT_FIGURES).map(([name, value]) => [
      name,
      ["Requests in 10 seconds, counted approximately", value] as const,
    ]),
  ),
  body_bytes: ["Bytes of a body", BODY_LIMIT_BYTES],
  fields_per_object: ["Fields of a JSON object", MAX_MEMBERS],
  items_per_list: ["Items of a JSON list", MAX_MEMBERS],
  parameters_per_query: ["Parameters of a query", MAX_MEMBERS],
  json_levels: ["Levels of nesting in a JSON body", MAX_DEPTH],
  errors_per_response: ["Field errors that a 400 names", MAX_FIELD_ERRORS],
  page_items: ["Items of a page", MAX_PAGE],
  hmac_tolerance_secs: [
    "Seconds between X-Hmac-Timestamp and the server's time",
    setting("AUTH_HMAC_TOLERANCE_SECS"),
  ],
  session_ttl_secs: ["Seconds until a session expires", setting("AUTH_SESSION_TTL_SECS")],
  fresh_session_secs: [
    "Seconds after a login in which calls that mint keys need no password",
    setting("AUTH_FRESH_SESSION_SECS"),
  ],
  ticket_ttl_secs: ["Seconds until a ticket expires", TICKET_LIFETIME_MS / 1_000],
  password_min_chars: ["Characters of a new password, at least", MIN_PASSWORD_CHARS],
  password_bytes: ["Bytes of a password", MAX_PASSWORD_BYTES],
  failed_logins_per_email_and_network_per_15_mins: [
    "Failed logins of one email from an IPv4 address or IPv6 /64 in 15 minutes",
    LOGIN_LIMITS.perEmailAndNetwork,
  ],
  failed_logins_per_email_and_block_per_15_mins: [
    "Failed logins of one email from an IPv6 /48 in 15 minutes",
    LOGIN_LIMITS.perEmailAndBlock,
  ],
  failed_logins_per_network_per_15_mins: [
    "Failed logins from an IPv4 address or IPv6 /64 in 15 minutes",
    LOGIN_LIMITS.perNetwork,
  ],
  failed_logins_per_block_per_15_mins: [
    "Failed logins from an IPv6 /48 in 15 minutes",
    LOGIN_LIMITS.perBlock,
  ],
  failed_logins_per_email_per_15_mins: [
    "Failed logins of one email in 15 minutes, after which each unknown network has fewer",
    LOGIN_LIMITS.perEmail,
  ],
  failed_logins_per_email_and_unknown_network_per_15_mins: [
    "Failed logins that each unknown network then has on that email in 15 minutes",
    LOGIN_LIMITS.underAttack,
  ],
  logins_per_email_and_network_per_min: [
    "Logins and step-up calls of one email from an IPv4 address or IPv6 /64 in a minute, right " +
      "passwords included",
    setting("AUTH_LOGINS_PER_MINUTE"),
  ],
  wrong_codes_per_user_and_hour: [
    "Wrong one-time codes of a user in an hour, after which only known networks count",
    CODE_LIMITS.perUser,
  ],
  wrong_codes_per_user_and_network_and_hour: [
    "Wrong one-time codes of a user from one network in an hour",
    CODE_LIMITS.perNetwork,
  ],
  default_key_life_secs: [
    "Seconds until a key expires, if `expires_at` is left out",
    DEFAULT_KEY_LIFE_MS / 1_000,
  ],
  totp_enrolment_secs: [
    "Seconds in which a new TOTP secret must be confirmed",
    ENROLMENT_MS / 1_000,
  ],
  logins_in_progress_per_network: [
    "Logins waiting in one instance of the service from a network, or of an email from a " +
      "network that has logged it in",
    MAX_WAITING_PER_CALLER,
  ],
  logins_in_progress_per_known_network: [
    "Logins waiting in one instance of the service, of all emails that their network has logged in",
    MAX_WAITING_PER_NETWORK,
  ],
  registrations_per_network_per_day: [
    "Accounts registered from an IPv4 address or IPv6 /48 in 24 hours",
    setting("AUTH_DAILY_REGISTRATIONS"),
  ],
  api_keys_per_user: ["API keys of a user that are neither revoked nor expired", MAX_KEYS_PER_USER],
  allowed_ips_per_api_key: [
    "Addresses and ranges in the allow list of an API key",
    MAX_ALLOWED_IPS,
  ],
  open_requests_per_user: ["Open requests of a user", setting("RFQ_OPEN_REQUESTS_PER_USER")],
  requests_per_day: ["Requests that a user opens in a day (UTC)", setting("RFQ_DAILY_REQUESTS")],
  tickets_per_day: ["Websocket tickets of a user in a day (UTC)", setting("STREAM_DAILY_TICKETS")],
  api_keys_per_day: ["API keys that a user mints in a day (UTC)", setting("AUTH_DAILY_API_KEYS")],
  deposit_addresses_per_day: [
    "Deposit addresses that a user creates in a day (UTC)",
    setting("DEPOSIT_DAILY_ADDRESSES"),
  ],
  quotes_per_call: ["Quotes of POST /rfq/quotes", MAX_QUOTES_PER_CALL],
  quotes_per_frame: ["Quotes of the command quotes", MAX_QUOTES_PER_FRAME],
  quote_calls_in_flight_per_user: [
    "Unanswered calls of a user that place several quotes",
    MAX_QUOTE_CALLS_IN_FLIGHT,
  ],
  open_quotes_per_user: ["Open quotes of a user", setting("RFQ_OPEN_QUOTES_PER_USER")],
  open_quotes_per_request_side: [
    "Open quotes on each side of a request, beyond which a better one outbids the worst",
    MAX_OPEN_QUOTES_PER_SIDE,
  ],
  open_quotes_per_user_and_request_side: [
    "Open quotes of a user on one side of a request",
    MAX_OPEN_QUOTES_PER_MAKER,
  ],
  request_life_secs: ["Seconds until a request expires", REQUEST_LIFE.max],
  quote_life_secs: ["Seconds until a quote expires", QUOTE_LIFE.max],
  cancel_after_secs: ["Seconds of a cancel-after timer", CANCEL_AFTER_SECS.max],
  armed_socket_silence_secs: [
    "Seconds after which a silent socket with cancel_on_disconnect is closed",
    MAX_SILENCE_MS / 1_000,
  ],
  protection_window_secs: ["Seconds within which a protection counts matches", MAX_WINDOW_SECS],
  protection_cooldown_secs: [
    "Seconds for which a protection that tripped rejects quotes",
    MAX_COOLDOWN_SECS,
  ],
  commands_in_flight_per_socket: [
    "Commands of one socket that wait for their results",
    setting("RFQ_COMMANDS_IN_FLIGHT_PER_SOCKET"),
  ],
  commands_in_flight_per_user_and_book: [
    "Commands of a user in one book that wait for their results",
    setting("RFQ_COMMANDS_IN_FLIGHT_PER_USER"),
  ],
  commands_in_flight_per_user_and_stream: [
    "Commands of a user on all their sockets of one stream that wait for their results",
    setting("RFQ_COMMANDS_IN_FLIGHT_PER_USER"),
  ],
  commands_waiting_per_book: ["Commands of all users that wait in one book", MAX_WAITING_COMMANDS],
  command_wait_ms: [
    "Milliseconds that a command waits before it is not carried out any more",
    setting("RFQ_COMMAND_MAX_WAIT_MS"),
  ],
  records_examined_per_counted_request: [
    "Records that a list examines for each request that it counts as",
    RECORDS_PER_UNIT,
  ],
  public_records_examined_per_counted_request: [
    "Records that a public list examines for each request that it counts as",
    PUBLIC_RECORDS_PER_UNIT,
  ],
  records_examined_per_page: [
    "Records that a page of requests, quotes, matches or events examines for a filter",
    MAX_EXAMINED,
  ],
  tape_secs: ["Seconds for which GET /rfq/get-trades lists a trade", TAPE_MS / 1_000],
  hot_window_secs: [
    "Seconds for which requests and quotes are listed after they ended, at least",
    OLDEST_READ.endedRecords.ms / 1_000,
  ],
  idempotency_key_life_secs: [
    "Seconds for which an idempotency key is remembered",
    OLDEST_READ.replayByKey.ms / 1_000,
  ],
  sockets_per_user: ["Open sockets of a user over all streams", setting("STREAM_SOCKETS_PER_USER")],
  webhooks_per_user: ["Webhooks of a user", MAX_WEBHOOKS],
  webhook_waiting_events: [
    "Events that wait for a webhook, beyond which it is disabled",
    MAX_WAITING,
  ],
  webhook_waiting_secs: [
    "Seconds after which an event that was not accepted disables its webhook",
    MAX_WAITING_MS / 1_000,
  ],
  assets_per_socket: ["Assets that a socket of a venue chooses", MAX_ASSETS],
  frame_bytes: ["Bytes of a frame that a client sends", MAX_FRAME_BYTES],
  malformed_frames_per_minute: [
    "Malformed frames in a minute that close a socket",
    MAX_MALFORMED_FRAMES,
  ],
  frames_per_user_and_stream_per_sec: [
    "Frames of a user on one stream in a second, beyond which a socket is closed",
    MAX_FRAMES,
  ],
  unanswered_bytes_per_socket: [
    "Bytes of events sent to a socket that sends nothing, beyond which it is closed",
    MAX_UNANSWERED_BYTES,
  ],
  snapshot_frame_bytes: [
    "Bytes of a snapshot frame that the service sends",
    MAX_SNAPSHOT_FRAME_BYTES,
  ],
  event_life_secs: ["Seconds for which `since` can replay an event", KEPT.events / 1_000],
  replay_events: ["Events that `since` replays", MAX_REPLAY],
  deposit_addresses_per_user_and_chain: [
    "Deposit addresses of a user on one chain",
    MAX_DEPOSIT_ADDRESSES,
  ],
  small_deposits_credited_together: [
    "Deposits below the minimum, of one asset to one address, that are summed",
    SUMMED_ROWS,
  ],
  balance_max_amount: [
    "Largest balance of an asset, in native units as hexadecimal text",
    toHex(MAX_NATIVE_UNITS),
  ],
  statements_per_user: ["CSV statements of a user written at a time", 1],
  statement_idle_secs: [
    "Seconds for which a statement that is not read keeps the next one waiting",
    LEASE_MS / 1_000,
  ],
  statement_rows: ["Rows of a CSV statement", MAX_STATEMENT_ROWS],
  withdrawal_min_amount: [
    "Smallest withdrawal, in native units as hexadecimal text",
    (settings) => toHex(settings.WITHDRAWAL_MIN_UNITS),
  ],
  withdrawal_max_amount: [
    "Largest withdrawal, in native units as hexadecimal text",
    (settings) => toHex(settings.WITHDRAWAL_MAX_UNITS),
  ],
  withdrawals_per_day: [
    "Withdrawals of a user in 24 hours, failed ones included",
    setting("WITHDRAWAL_DAILY_COUNT"),
  ],
  reverted_payments_per_address: [
    "Reverted payments to an address in 30 days, after which it is refused",
    MAX_REVERTED_PAYMENTS,
  ],
};

/** The member `limits` of GET /config. A record, because a release may add limits. */
export const Limits = z.record(z.string(), z.union([z.int(), z.string()])).meta({
  description: `Every limit by name. A name ends in its unit.\n\n${Object.entries(LIMITS)
    .map(([name, [description]]) => `- \`${name}\`: ${description}`)
    .join("\n")}`,
  examples: [
    { hmac_tolerance_secs: 30, read_requests_per_user_per_10_secs: 1_000, page_items: MAX_PAGE },
  ],
});

export function limitsOf(settings: Config): Record<string, number | string> {
  return Object.fromEntries(
    Object.entries(LIMITS).map(([name, [, value]]) => [
      name,
      typeof value === "function" ? value(settings) : value,
    ]),
  );
}
