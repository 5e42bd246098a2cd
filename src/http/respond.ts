/** Makes responses: JSON bodies, problems, and the headers of every response. */
import { SettingsError } from "../platform/check-settings.ts";
import type { Config } from "../platform/config.ts";
import { OutcomeUnknown, RolledBack } from "../platform/commit.ts";
import { isD1Error } from "../platform/platform-limits.ts";
import type { RequestContext } from "./request-context.ts";
import { errorFields, log } from "../platform/log.ts";
import {
  Problem,
  problemBody,
  type ProblemData,
  problemStatus,
  unavailable,
} from "../platform/problem.ts";

/** The headers of every response. Responses copy them, because setting each one takes longer. */
const COMMON = new Headers({
  "x-content-type-options": "nosniff",
  "strict-transport-security": "max-age=31536000; includeSubDomains",
  "referrer-policy": "no-referrer",
  "x-frame-options": "DENY",
  "cross-origin-resource-policy": "same-site",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cache-control": "no-store",
});
/** Headers of which a handler's own value is kept. */
const REPLACEABLE = new Set(["content-security-policy", "cache-control"]);

const JSON_HEADERS = new Headers([...COMMON, ["content-type", "application/json"]]);
const PROBLEM_HEADERS = new Headers([...COMMON, ["content-type", "application/problem+json"]]);

export function jsonResponse(
  body: unknown,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const response = new Response(JSON.stringify(body), { status, headers: JSON_HEADERS });
  for (const [name, value] of Object.entries(headers)) response.headers.set(name, value);
  return response;
}

function problemResponse(data: ProblemData, context: RequestContext): Response {
  context.problem = data.code;
  const status = problemStatus(data.code);
  const body = JSON.stringify(problemBody(data, context.requestId));
  const response = new Response(body, { status, headers: PROBLEM_HEADERS });
  const { headers } = response;
  for (const [name, value] of Object.entries(data.headers ?? {})) headers.set(name, value);
  if (data.retryAfterSecs !== undefined)
    headers.set("retry-after", String(Math.max(1, Math.ceil(data.retryAfterSecs))));
  // RFC 9110 section 15.5.2 requires a scheme in every 401. There is none for API keys.
  if (status === 401) headers.set("www-authenticate", "Bearer");
  return response;
}

/**
 * Maps any thrown value to a response. Unexpected errors are logged in full. The client learns only
 * whether the request may have taken effect.
 */
export function errorResponse(error: unknown, context: RequestContext): Response {
  if (error instanceof Problem) return problemResponse(error.data, context);
  log("error", "unexpected_error", {
    request_id: context.requestId,
    route: context.route,
    ...errorFields(error),
  });
  if (error instanceof SettingsError)
    return problemResponse(
      unavailable("none", `Settings are missing or not valid: ${error.names.join(", ")}.`).data,
      context,
    );
  if (error instanceof OutcomeUnknown) return problemResponse(unavailable("unknown").data, context);
  const outcome = context.mutating && !(error instanceof RolledBack) ? "unknown" : "none";
  if (!(error instanceof RolledBack) && isD1Error(error, "away"))
    return problemResponse(unavailable(outcome).data, context);
  return problemResponse(
    { code: "internal", detail: "An unexpected error occurred.", extensions: { outcome } },
    context,
  );
}

/** Sets the common headers in place, so those of `response` must be mutable (`ownResponse`). */
export function finish(response: Response, context: RequestContext): void {
  const { headers } = response;
  headers.set("x-request-id", context.requestId);
  // `jsonResponse` and `problemResponse` have copied them.
  if (headers.has("x-frame-options")) return;
  for (const [name, value] of COMMON)
    if (!REPLACEABLE.has(name) || !headers.has(name)) headers.set(name, value);
}

/** A copy, because a Durable Object's response has immutable headers. A websocket is passed on. */
export function ownResponse(response: Response): Response {
  const headers = new Headers(response.headers);
  if (response.webSocket)
    return new Response(null, { status: 101, webSocket: response.webSocket, headers });
  return new Response(response.body, { status: response.status, headers });
}

const EXPOSED =
  "x-request-id, idempotency-replayed, retry-after, ratelimit, ratelimit-policy, allow";

/** CORS headers for CORS_ORIGINS. The service uses no cookies, so it never allows credentials. */
export function addCors(response: Response, request: Request, settings: Config): void {
  if (settings.CORS_ORIGINS.length === 0) return;
  response.headers.append("vary", "Origin");
  const origin = request.headers.get("origin");
  if (origin === null || !settings.CORS_ORIGINS.includes(origin)) return;
  response.headers.set("access-control-allow-origin", origin);
  response.headers.set("access-control-expose-headers", EXPOSED);
  response.headers.set("cross-origin-resource-policy", "cross-origin");
}

export function preflight(methods: readonly string[]): Response {
  return new Response(null, {
    status: 204,
    headers: {
      "access-control-allow-methods": methods.join(", "),
      "access-control-allow-headers":
        "authorization, content-type, apikey, x-hmac-timestamp, x-hmac-signature, " +
        "idempotency-key, x-request-id",
      "access-control-max-age": "600",
    },
  });
}
