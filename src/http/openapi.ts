/** Makes the OpenAPI description of a route from the schemas that validate its requests. */
import { type RouteConfig, z } from "@hono/zod-openapi";
import { PROBLEM_CODES, type ProblemCode, problemStatus } from "../platform/problem.ts";
import type { Credential } from "../platform/actor.ts";
import { described } from "./fields.ts";

export const API_VERSION = "0.1.0";

/** A member that only some codes have. */
const extension = (schema: z.ZodType, description: string) =>
  schema.optional().openapi({ description });
const hexAmount = z.string().regex(/^0x[0-9a-f]+$/);

const ProblemCodeSchema = z
  .union([z.enum(PROBLEM_CODES), z.string()])
  .openapi("ProblemCode", { description: "Machine-readable code. New codes may be added." });

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
    server_time: extension(
      z.iso.datetime(),
      "With `timestamp_outside_tolerance`: the server's time. With `deadline_passed`: the instant " +
        "with which the deadline was compared",
    ),
    skew_ms: extension(
      z.int(),
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
    required_scope: extension(
      z.string(),
      "With `scope_missing`: the scope that the operation requires",
    ),
    granted_scopes: extension(
      z.array(z.string()),
      "With `scope_missing`: the scopes of the credential",
    ),
    available: extension(
      hexAmount,
      "With `insufficient_funds` and `chain_liquidity`: the available amount",
    ),
    required: extension(
      hexAmount,
      "With `insufficient_funds`, `key_limit` and `account_limit`: the required amount",
    ),
    minimum: extension(hexAmount, "With `withdrawal_amount_limit`: the minimum of one withdrawal"),
    maximum: extension(
      hexAmount.nullable(),
      "With `withdrawal_amount_limit`: the maximum of one withdrawal. With `key_limit` and " +
        "`account_limit`: the limit; null for `venues`, which is a list",
    ),
    used: extension(
      hexAmount.nullable(),
      "With `key_limit` and `account_limit`: what counts against the limit already",
    ),
    limit: extension(
      z.string(),
      "With `daily_limit`: the name of the limit in GET /config. With `key_limit` and " +
        "`account_limit`: its field of the key or the policy",
    ),
    max_per_day: extension(z.int(), "With `daily_limit`: how many are allowed in 24 hours"),
    remaining: extension(
      z.int(),
      "With `withdrawal_daily_limit`: how many more withdrawals are allowed now",
    ),
    frozen_by: extension(
      z.enum(["self", "operator"]),
      "With `account_frozen`: who froze the account. A freeze of one's own ends with a code.",
    ),
    until: extension(z.iso.datetime(), "With `security_hold`: when the hold ends"),
    active_from: extension(
      z.iso.datetime().nullable(),
      "With `address_not_listed`: when the address becomes usable; null if it is not listed",
    ),
    cancel_at: extension(
      z.iso.datetime(),
      "With `cancel_after_passed`: when the credential's timer ran out",
    ),
    blocked_until: extension(
      z.iso.datetime().nullable(),
      "With `protection_tripped`: when the protection ends; null if only a reset ends it",
    ),
    withdrawal_status: extension(
      z.string(),
      "With `withdrawal_not_cancellable` and `withdrawal_not_approvable`: the withdrawal's status",
    ),
    quote_status: extension(z.string(), "With `quote_not_open`: the status of the quote"),
    match_id: extension(
      z.uuid(),
      "With `quote_not_open` and `request_not_open`: the match, for its requester and maker only",
    ),
    outcome: extension(
      z.enum(["none", "unknown"]),
      "With status 500 and `unavailable`: whether the request may have taken effect",
    ),
  })
  .openapi("Problem", {
    description: "RFC 9457 problem details. Some codes have further members.",
  });

/** Headers of every response, or of every response with a status: `#/components/headers/<name>`. */
export const HEADERS = {
  "x-request-id": {
    description: "UUID that identifies the request, generated by the server",
    required: true,
    schema: { type: "string", format: "uuid" },
  },
  "www-authenticate": {
    description: "An authentication scheme (RFC 9110)",
    required: true,
    schema: { type: "string" },
    example: "Bearer",
  },
  "retry-after": {
    description: "Seconds to wait before a retry",
    schema: { type: "string", pattern: "^[0-9]+$" },
    example: "1",
  },
  "ratelimit-policy": {
    description:
      "The rate limits that the request counted for: `q` requests in `w` seconds " +
      "(draft-ietf-httpapi-ratelimit-headers). Absent in a deployment without rate limits.",
    schema: { type: "string" },
    example: '"address";q=3000;w=10, "read";q=1000;w=10, "read-credential";q=800;w=10',
  },
  ratelimit: {
    description:
      "What is left of a limit: `r` requests for the next `t` seconds. Sent where the limit is " +
      "counted exactly, or is exhausted.",
    schema: { type: "string" },
    example: '"read";r=0;t=10',
  },
  "idempotency-replayed": {
    description: "`true` if the response repeats an earlier one",
    schema: { type: "string", enum: ["true"] },
  },
} as const;

export type Documented = {
  readonly method: "get" | "post" | "delete";
  readonly path: string;
  readonly operationId: string;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string | undefined;
  readonly credential: Credential;
  readonly scope?: string | undefined;
  readonly query?: z.ZodType | undefined;
  readonly body?: z.ZodType | undefined;
  readonly fields?: z.ZodObject | undefined;
  readonly response: z.ZodType;
  readonly status?: number | undefined;
  readonly responseDescription?: string | undefined;
  readonly responseHeaders?: Readonly<Record<string, string>> | undefined;
  readonly otherMediaTypes?: readonly string[] | undefined;
  readonly mediaType?: string | undefined;
  readonly idempotent?: boolean | undefined;
  readonly stream?: boolean | undefined;
  readonly problems?: readonly ProblemCode[] | undefined;
};

export function describeRoute(route: Documented): RouteConfig {
  return {
    method: route.method,
    path: route.path,
    operationId: route.operationId,
    tags: [route.tag],
    summary: route.summary,
    ...descriptionOf(route),
    security: securityOf(route.credential),
    "x-credential": route.credential,
    ...(route.scope === undefined ? {} : { "x-scope": route.scope }),
    ...(route.stream === true ? { "x-stream": true } : {}),
    request: requestOf(route),
    responses: { ...successOf(route), ...problemsOf(route) },
  };
}

function descriptionOf({ description, fields }: Documented): { description?: string } {
  const inBody =
    fields === undefined
      ? []
      : ["The fields may be in a JSON body instead. A field in both must have the same value."];
  const sentences = [...(description === undefined ? [] : [description]), ...inBody];
  return sentences.length === 0 ? {} : { description: sentences.join(" ") };
}

const SESSION = { session: [] };
const API_KEY = { api_key: [], hmac_timestamp: [], hmac_signature: [] };

function securityOf(credential: Credential): NonNullable<RouteConfig["security"]> {
  if (credential === "public") return [];
  if (credential === "session") return [SESSION];
  return credential === "api_key" ? [API_KEY] : [SESSION, API_KEY];
}

/** The two credentials. A request with an API key requires all three of its headers. */
export const SECURITY_SCHEMES = {
  session: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "JWT",
    description: "The `access_token` from POST /auth/login",
  },
  api_key: {
    type: "apiKey",
    in: "header",
    name: "APIKEY",
    description: "The `api_key_id` from POST /auth/api-keys",
  },
  hmac_timestamp: {
    type: "apiKey",
    in: "header",
    name: "X-Hmac-Timestamp",
    description: "Unix time in milliseconds",
  },
  hmac_signature: {
    type: "apiKey",
    in: "header",
    name: "X-Hmac-Signature",
    description:
      "Base64 of HMAC-SHA256 over " +
      "`{timestamp_ms}\\n{METHOD}\\n{PATH_AND_QUERY}\\n{BODY}`, keyed with the secret",
  },
} as const;

function requestOf(route: Documented): NonNullable<RouteConfig["request"]> {
  // A DELETE also takes its fields in a body. Only its description says so, because OpenAPI cannot
  // express that a field may be in either place.
  const query = route.query ?? route.fields;
  const { body } = route;
  const idempotency = z.object({
    "Idempotency-Key": idempotencyKey("Alternative to `idempotency_key` in the body. Not signed."),
  });
  return {
    ...(query instanceof z.ZodObject ? { query } : {}),
    ...(route.idempotent === true ? { headers: idempotency } : {}),
    ...(body === undefined
      ? {}
      : {
          body: {
            // An empty body equals `{}`.
            required: !body.safeParse({}).success,
            content: { "application/json": { schema: documentedBody(route, body) } },
          },
        }),
  };
}

function documentedBody(route: Documented, body: z.ZodType): z.ZodType {
  if (!(body instanceof z.ZodObject) || route.idempotent !== true) return body;
  return body.safeExtend({
    idempotency_key: idempotencyKey(
      "Alternative to the header Idempotency-Key. Signed with the body.",
    ),
  });
}

function idempotencyKey(description: string): z.ZodType {
  return z
    .string()
    .regex(/^[!-~]{1,128}$/)
    .optional()
    .openapi({ description });
}

function successOf(route: Documented): RouteConfig["responses"] {
  const headers: DocumentedHeaders = headersOf(["x-request-id", "ratelimit-policy"]);
  const opened = "The socket is open. docs/asyncapi.yaml describes its messages.";
  if (route.stream === true) return { 101: { description: opened, headers } };
  if (route.idempotent === true) Object.assign(headers, headersOf(["idempotency-replayed"]));
  for (const [name, description] of Object.entries(route.responseHeaders ?? {}))
    headers[name] = { description, schema: { type: "string" } };
  const content: Record<string, { schema: z.ZodType }> = {
    [route.mediaType ?? "application/json"]: { schema: route.response },
  };
  for (const type of route.otherMediaTypes ?? []) content[type] = { schema: z.string() };
  return {
    [route.status ?? 200]: {
      description: route.responseDescription ?? "Success",
      headers,
      content,
    },
  };
}

/** The codes that every route with these properties can return, without the route's own. */
function commonProblems(route: Documented): ProblemCode[] {
  const codes: ProblemCode[] = [
    "invalid_request",
    "body_too_large",
    "content_type_unsupported",
    "rate_limited",
    "internal",
    "unavailable",
  ];
  if (route.stream === true) {
    codes.push(
      "websocket_required",
      "ticket_invalid",
      "api_key_revoked",
      "api_key_expired",
      "account_frozen",
      "ip_not_allowed",
      "scope_missing",
      "socket_limit",
    );
  }
  if (route.credential !== "public") codes.push("credentials_missing", "account_frozen");
  if (route.credential === "any" || route.credential === "session")
    codes.push("session_invalid", "session_expired");
  if (route.credential === "any" || route.credential === "api_key") {
    codes.push(
      "timestamp_malformed",
      "api_key_unknown",
      "timestamp_outside_tolerance",
      "signature_invalid",
      "api_key_revoked",
      "api_key_expired",
      "ip_not_allowed",
    );
  }
  if (route.credential === "session") codes.push("session_required");
  if (route.credential === "api_key")
    codes.push(route.scope === "withdraw" ? "session_cannot_withdraw" : "api_key_required");
  if (route.scope !== undefined) codes.push("scope_missing");
  if (route.idempotent === true) codes.push("idempotency_key_reused", "idempotency_in_progress");
  return codes;
}

function problemsOf(route: Documented): RouteConfig["responses"] {
  const byStatus = new Map<number, ProblemCode[]>();
  for (const code of new Set([...commonProblems(route), ...(route.problems ?? [])])) {
    const status = problemStatus(code);
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const responses: RouteConfig["responses"] = {};
  for (const [status, codes] of byStatus) {
    responses[status] = {
      description: codes.map((code) => `\`${code}\``).join(", "),
      headers: headersOf(["x-request-id", "ratelimit-policy", ...(STATUS_HEADERS[status] ?? [])]),
      content: {
        "application/problem+json": {
          schema: ProblemSchema,
          examples: Object.fromEntries(codes.map(exampleReference)),
        },
      },
    };
  }
  return responses;
}

const STATUS_HEADERS: Readonly<Record<number, readonly (keyof typeof HEADERS)[]>> = {
  401: ["www-authenticate"],
  429: ["retry-after", "ratelimit"],
  503: ["retry-after"],
};

type DocumentedHeaders = Record<
  string,
  { $ref: string } | { description: string; schema: { type: "string" } }
>;

function headersOf(names: readonly (keyof typeof HEADERS)[]): DocumentedHeaders {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

function exampleReference(code: ProblemCode): [string, { $ref: string }] {
  return [code, { $ref: `#/components/examples/${code}` }];
}
