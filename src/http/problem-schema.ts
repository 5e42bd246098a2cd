/** The body of an error response (RFC 9457), as it is described. */
import * as z from "zod";
import { PROBLEM_CODES } from "../platform/problem.ts";
import { described } from "./fields.ts";

/** A member that only some codes have. */
const extension = (schema: z.ZodType, description: string) =>
  schema.optional().meta({ description });
const hexAmount = z.string().regex(/^0x[0-9a-f]+$/);
const instant = (description: string) => extension(z.iso.datetime(), description);
const instantOrNull = (description: string) => extension(z.iso.datetime().nullable(), description);
const text = (description: string) => extension(z.string(), description);
const count = (description: string) => extension(z.int(), description);

const ProblemCodeSchema = z
  .union([z.enum(PROBLEM_CODES), z.string()])
  .meta({ id: "ProblemCode", description: "Machine-readable code. New codes may be added." });

export const ProblemSchema = z
  .looseObject({
    type: described(z.string(), "`urn:rfq-custody:error:` followed by the code"),
    title: described(
      z.string(),
      "Short summary of the error, the same for every error of the code",
    ),
    status: described(z.int(), "HTTP status"),
    code: ProblemCodeSchema,
    detail: described(z.string(), "Explanation of this error, for people"),
    request_id: described(z.uuid(), "The x-request-id of the response"),
    errors: extension(
      z.array(
        z.object({
          path: described(z.string(), "Where the field is, e.g. `body.price` or `query.limit`"),
          message: described(z.string(), "The rule that the field breaks"),
        }),
      ),
      "With status 400: the field errors of the request",
    ),
    server_time: instant(
      "With `timestamp_outside_tolerance`: the server's time. With `deadline_passed`: the instant " +
        "with which the deadline was compared",
    ),
    skew_ms: count(
      "With `timestamp_outside_tolerance`: the timestamp minus the server's time, in milliseconds",
    ),
    signed: extension(
      z.object({
        timestamp: described(z.string(), "The header X-Hmac-Timestamp"),
        method: described(z.string(), "The method of the request"),
        path_and_query: described(z.string(), "The request target as the server received it"),
        body_sha256: described(z.string(), "SHA-256 of the body, in lower-case hexadecimal"),
        body_bytes: described(z.int(), "Length of the body in bytes"),
      }),
      "With `signature_invalid`: the parts of the message that the server signed",
    ),
    required_scope: text("With `scope_missing`: the scope that the operation requires"),
    granted_scopes: extension(
      z.array(z.string()),
      "With `scope_missing`: the scopes of the credential",
    ),
    available: extension(
      hexAmount,
      "With `insufficient_funds` and `chain_liquidity`: the available amount",
    ),
    usdc_reserve: extension(
      hexAmount,
      "With `insufficient_funds` of a quote on a paired market: what `backing: usdc` would reserve",
    ),
    required: extension(
      hexAmount,
      "With `insufficient_funds`, `key_limit` and `account_limit`: the required amount",
    ),
    minimum: extension(
      hexAmount,
      "With `withdrawal_amount_limit` and `request_amount_limit`: the minimum of one withdrawal " +
        "or request",
    ),
    maximum: extension(
      hexAmount.nullable(),
      "With `withdrawal_amount_limit`: the maximum of one withdrawal. With `key_limit` and " +
        "`account_limit`: the limit; null for `venues`, which is a list",
    ),
    used: extension(
      hexAmount.nullable(),
      "With `key_limit` and `account_limit`: what counts against the limit already",
    ),
    limit: text(
      "With `daily_limit`: the name of the limit in GET /config. With `key_limit` and " +
        "`account_limit`: its field of the key or the policy",
    ),
    max_per_day: count("With `daily_limit`: how many are allowed in 24 hours"),
    remaining: count("With `withdrawal_daily_limit`: how many more withdrawals are allowed now"),
    frozen_by: extension(
      z.enum(["self", "operator"]),
      "With `account_frozen`: who froze the account. A freeze of one's own ends with a code.",
    ),
    until: instant("With `security_hold`: when the hold ends"),
    active_from: instantOrNull(
      "With `address_not_listed`: when the address becomes usable; null if it is not listed",
    ),
    cancel_at: instant("With `cancel_after_passed`: when the credential's timer ran out"),
    blocked_until: instantOrNull(
      "With `protection_tripped`: when the protection ends; null if only a reset ends it",
    ),
    withdrawal_status: text(
      "With `withdrawal_not_cancellable` and `withdrawal_not_approvable`: the withdrawal's status",
    ),
    quote_status: text("With `quote_not_open`: the status of the quote"),
    match_id: extension(
      z.uuid(),
      "With `quote_not_open` and `request_not_open`: the match, for its requester and maker only",
    ),
    best_price: extension(
      z.int().nullable(),
      "With `no_quote_within`: the best open price of that side, scaled by 1e6. Null if there is none",
    ),
    last_price: extension(
      z.int(),
      "With `price_out_of_range`: the last price of the asset, scaled by 1e6",
    ),
    max_deviation: extension(
      z.int(),
      "With `price_out_of_range`: how far your protection lets a quote be from it, scaled by 1e6",
    ),
    last_seq: count(
      "With `events_gone`: the stream's last number. Read your records, then continue from it",
    ),
    outcome: extension(
      z.enum(["none", "unknown"]),
      "With status 500 and `unavailable`: whether the request may have taken effect",
    ),
  })
  .meta({
    id: "Problem",
    description: "RFC 9457 problem details. Some codes have further members.",
  });
