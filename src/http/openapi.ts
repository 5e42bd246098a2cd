/** The OpenAPI description of a route, from the same schemas that validate it. */
import { type RouteConfig, z } from "@hono/zod-openapi";
import { type ProblemCode, problemStatus } from "../platform/problem.ts";
import type { Credential } from "../platform/actor.ts";

export const API_VERSION = "0.1.0";

const told = (schema: z.ZodType, codes: string) =>
  schema.optional().openapi({ description: `Of ${codes}` });
const hexAmount = z.string().regex(/^0x[0-9a-f]+$/);

export const ProblemSchema = z
  .looseObject({
    type: z.string().openapi({ description: "`urn:rfq-custody:error:` and the code" }),
    title: z.string(),
    status: z.int(),
    code: z.string().openapi({ description: "Stable; the list may grow" }),
    detail: z.string(),
    request_id: z.uuid().openapi({ description: "The x-request-id of the answer" }),
    errors: told(
      z.array(z.object({ path: z.string(), message: z.string() })),
      "400: every fault of the request at once",
    ),
    server_time: told(z.iso.datetime(), "timestamp_outside_tolerance"),
    skew_ms: told(z.int(), "timestamp_outside_tolerance: the timestamp minus the server's time"),
    signed: told(
      z.object({
        timestamp: z.string(),
        method: z.string(),
        path_and_query: z.string(),
        body_sha256: z.string(),
        body_bytes: z.int(),
      }),
      "signature_invalid: what the server signed",
    ),
    required_scope: told(z.string(), "scope_missing"),
    granted_scopes: told(z.array(z.string()), "scope_missing"),
    available: told(hexAmount, "insufficient_funds and chain_liquidity"),
    required: told(hexAmount, "insufficient_funds"),
    minimum: told(hexAmount, "withdrawal_amount_limit"),
    maximum: told(hexAmount, "withdrawal_amount_limit"),
    remaining: told(z.int(), "withdrawal_daily_limit"),
    quote_status: told(z.string(), "quote_not_open"),
    match_id: told(z.uuid(), "quote_not_open and request_not_open, to those who traded"),
    outcome: told(
      z.enum(["none", "unknown"]),
      "500 and unavailable: whether anything may have been done",
    ),
  })
  .openapi("Problem", {
    description: "RFC 9457 problem details; further members depend on the code",
  });

/** Of every answer, or of all with a status; `#/components/headers/<name>`. */
export const HEADERS = {
  "x-request-id": {
    description: "UUID made by the server",
    required: true,
    schema: { type: "string", format: "uuid" },
  },
  "www-authenticate": {
    description: "Names a scheme (RFC 9110)",
    required: true,
    schema: { type: "string" },
    example: "Bearer",
  },
  "retry-after": {
    description: "Seconds to wait before the next try",
    schema: { type: "string", pattern: "^[0-9]+$" },
    example: "1",
  },
  "idempotency-replayed": {
    description: "`true` when an earlier answer is repeated",
    schema: { type: "string", enum: ["true"] },
  },
} as const;

export type Documented = {
  readonly method: "get" | "post" | "delete";
  readonly path: string;
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
    operationId: `${route.method}${route.path.replaceAll(/[^a-z]+([a-z])/g, (_, letter: string) => letter.toUpperCase())}`,
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
      : ["The fields may stand in a JSON body instead; one given in both must say the same."];
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

/** Two credentials; the three headers of a signed request go together. */
export const SECURITY_SCHEMES = {
  session: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "JWT",
    description: "`access_token` of POST /auth/login",
  },
  api_key: {
    type: "apiKey",
    in: "header",
    name: "APIKEY",
    description: "`api_key_id` of POST /auth/api-keys",
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
      "Base64 of HMAC-SHA256 over `{timestamp_ms}\\n{METHOD}\\n{PATH_AND_QUERY}\\n{BODY}`, keyed with the secret",
  },
} as const;

function requestOf(route: Documented): NonNullable<RouteConfig["request"]> {
  // A DELETE takes its fields in a body too; "in one of the two, or the same in both" cannot be said in OpenAPI, its text says it.
  const query = route.query ?? route.fields;
  const { body } = route;
  const idempotency = z.object({
    "Idempotency-Key": idempotencyKey("Or `idempotency_key` in the body, where it is signed"),
  });
  return {
    ...(query instanceof z.ZodObject ? { query } : {}),
    ...(route.idempotent === true ? { headers: idempotency } : {}),
    ...(body === undefined
      ? {}
      : {
          body: {
            required: !acceptsNothing(body),
            content: { "application/json": { schema: documentedBody(route, body) } },
          },
        }),
  };
}

function documentedBody(route: Documented, body: z.ZodType): z.ZodType {
  if (!(body instanceof z.ZodObject) || route.idempotent !== true) return body;
  return body.safeExtend({
    idempotency_key: idempotencyKey("Or the header Idempotency-Key; this one is signed"),
  });
}

function idempotencyKey(description: string): z.ZodType {
  return z
    .string()
    .regex(/^[!-~]{1,128}$/)
    .optional()
    .openapi({ description });
}

/** An empty body equals `{}`. */
function acceptsNothing(body: z.ZodType): boolean {
  return body.safeParse({}).success;
}

function successOf(route: Documented): RouteConfig["responses"] {
  if (route.stream === true)
    return {
      101: {
        description: "The socket is open; docs/asyncapi.yaml describes its messages",
        headers: headersOf(["x-request-id"]),
      },
    };
  const headers: DocumentedHeaders = headersOf(["x-request-id"]);
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

/** Codes that every route of a kind can answer, before the route's own. */
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
      headers: headersOf(["x-request-id", ...(STATUS_HEADERS[status] ?? [])]),
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
  429: ["retry-after"],
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
