/** The OpenAPI description of a route, from the same schemas that validate it. */
import { type RouteConfig, z } from "@hono/zod-openapi";
import type { Credential } from "./route.ts";
import { type ProblemCode, problemStatus } from "./problem.ts";

export const API_VERSION = "0.1.0";

export const ProblemSchema = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    code: z.string(),
    detail: z.string(),
    request_id: z.uuid(),
    errors: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  })
  .openapi("Problem", { description: "RFC 9457 problem details; further members depend on the code" });

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
  readonly answer: z.ZodType;
  readonly status?: number | undefined;
  readonly answerDescription?: string | undefined;
  readonly answerHeaders?: Readonly<Record<string, string>> | undefined;
  readonly alsoAnswers?: readonly string[] | undefined;
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
    ...(route.description === undefined ? {} : { description: route.description }),
    security: securityOf(route.credential),
    "x-credential": route.credential,
    ...(route.scope === undefined ? {} : { "x-scope": route.scope }),
    ...(route.stream === true ? { "x-stream": true } : {}),
    request: requestOf(route),
    responses: { ...successOf(route), ...problemsOf(route) },
  };
}

const SESSION = { session: [] };
const API_KEY = { api_key: [], hmac_timestamp: [], hmac_signature: [] };

function securityOf(credential: Credential): NonNullable<RouteConfig["security"]> {
  if (credential === "public") return [];
  if (credential === "session") return [SESSION];
  return credential === "api_key" ? [API_KEY] : [SESSION, API_KEY];
}

export const SECURITY_SCHEMES = {
  session: { type: "http", scheme: "bearer", bearerFormat: "JWT" },
  api_key: { type: "apiKey", in: "header", name: "APIKEY" },
  hmac_timestamp: { type: "apiKey", in: "header", name: "X-Hmac-Timestamp" },
  hmac_signature: { type: "apiKey", in: "header", name: "X-Hmac-Signature" },
} as const;

function requestOf(route: Documented): NonNullable<RouteConfig["request"]> {
  const query = route.query ?? route.fields;
  const body = route.body ?? route.fields;
  const idempotency = z.object({
    "Idempotency-Key": z.string().max(128).optional().openapi({ description: "Or `idempotency_key` in the body, where it is signed" }),
  });
  return {
    // Fields of a DELETE may stand in either place, so none is required in a given one.
    ...(query instanceof z.ZodObject ? { query: route.fields === undefined ? query : optionalFields(route.fields) } : {}),
    ...(route.idempotent === true ? { headers: idempotency } : {}),
    ...(body === undefined
      ? {}
      : { body: { required: route.fields === undefined, content: { "application/json": { schema: documentedBody(route, body) } } } }),
  };
}

function documentedBody(route: Documented, body: z.ZodType): z.ZodType {
  if (!(body instanceof z.ZodObject)) return body;
  if (route.fields !== undefined) return optionalFields(route.fields);
  return route.idempotent === true ? body.safeExtend({ idempotency_key: z.string().max(128).optional() }) : body;
}

function successOf(route: Documented): RouteConfig["responses"] {
  if (route.stream === true) return { 101: { description: "The socket is open; its messages are described in the reference" } };
  const headers: Record<string, { description: string; schema: { type: "string" } }> = {
    "x-request-id": { description: "UUID made by the server", schema: { type: "string" } },
  };
  if (route.idempotent === true)
    headers["idempotency-replayed"] = { description: "`true` when an earlier answer is repeated", schema: { type: "string" } };
  for (const [name, description] of Object.entries(route.answerHeaders ?? {})) headers[name] = { description, schema: { type: "string" } };
  const content: Record<string, { schema: z.ZodType }> = { "application/json": { schema: route.answer } };
  for (const type of route.alsoAnswers ?? []) content[type] = { schema: z.string() };
  return { [route.status ?? 200]: { description: route.answerDescription ?? "Success", headers, content } };
}

/** Codes that every route of a kind can answer, before the route's own. */
function commonProblems(route: Documented): ProblemCode[] {
  const codes: ProblemCode[] = ["invalid_request", "body_too_large", "content_type_unsupported", "rate_limited", "internal", "unavailable"];
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
  if (route.credential === "any" || route.credential === "session") codes.push("session_invalid", "session_expired");
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
  if (route.credential === "api_key") codes.push(route.scope === "withdraw" ? "session_cannot_withdraw" : "api_key_required");
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
      content: { "application/problem+json": { schema: ProblemSchema } },
    };
  }
  return responses;
}

function optionalFields(fields: z.ZodObject): z.ZodObject {
  return z.strictObject(fields.shape).partial();
}
