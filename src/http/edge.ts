/** What every request has: an id, the common headers, an error response, its place in the log. */
import { type Config, config } from "../platform/config.ts";
import { counts } from "../platform/counts.ts";
import { log } from "../platform/log.ts";
import { now } from "../platform/time.ts";
import { type EdgeContext, newRequestContext, type RequestContext } from "./request-context.ts";
import { ratePolicies } from "./rate-limit.ts";
import { addCors, errorResponse, finish } from "./respond.ts";

/** Wraps every handler. Hono serves routes without middleware in fewer steps, so routes call it. */
export async function respond(
  c: EdgeContext,
  work: (context: RequestContext) => Promise<Response> | Response,
): Promise<Response> {
  const request = c.req.raw;
  const context = newRequestContext(request, (task) => c.executionCtx.waitUntil(task));
  let response: Response;
  try {
    response = await work(context);
  } catch (error) {
    response = errorResponse(error, context);
  }
  finish(response, context);
  let settings: Config | undefined;
  try {
    settings = config(c.env);
    // Beside the limits of the response's own problem.
    if (settings.RATE_LIMITS === "on")
      response.headers.append("ratelimit-policy", ratePolicies(context.rateClass));
    addCors(response, request, settings);
  } catch {
    // The settings are invalid. The error response above already reports this.
  }
  logRequest(context, { method: request.method, status: response.status }, settings);
  if (settings === undefined) return response;
  counts.count("rfq_requests_total", { verb: context.verb, outcome: context.problem ?? "ok" });
  counts.observe("rfq_request_seconds", context.verb, now() - context.startedAt);
  counts.send(c.env, context.waitUntil);
  return response;
}

/** Successes of a user that are logged in a minute and an isolate because they bring an id. */
const MAX_IDS_PER_MINUTE = 100;
const withIds = { since: 0, byUser: new Map<string, number>() };

/** Whether the caller can be known and named the request, to find it in the log. */
function isNamed({ userId, inboundRequestId }: RequestContext): boolean {
  if (userId === null || inboundRequestId === null) return false;
  if (now() - withIds.since >= 60_000) {
    withIds.since = now();
    withIds.byUser.clear();
  }
  const count = (withIds.byUser.get(userId) ?? 0) + 1;
  withIds.byUser.set(userId, count);
  return count <= MAX_IDS_PER_MINUTE;
}

/**
 * Logs each request that failed, was slow or was named by its authenticated caller, and of the
 * others one in LOG_SUCCESS_ONE_IN, because a line costs more than a cheap read. Without valid
 * settings it logs all. The metrics count all.
 */
export function logRequest(
  context: RequestContext,
  { method, status }: { method: string; status: number },
  settings: Pick<Config, "LOG_SUCCESS_ONE_IN" | "LOG_SLOW_MS"> | undefined,
): void {
  const durationMs = now() - context.startedAt;
  if (settings !== undefined && status < 400 && durationMs < settings.LOG_SLOW_MS) {
    // The id alone decides, so that support can tell whether a line exists.
    const sample = Number.parseInt(context.requestId.slice(0, 8), 16);
    if (sample % settings.LOG_SUCCESS_ONE_IN !== 0 && !isNamed(context)) return;
  }
  // A pause of withdrawals is an operator's decision, not a failure.
  const failed = status >= 500 && context.problem !== "withdrawals_paused";
  log(failed ? "error" : "info", "request", {
    request_id: context.requestId,
    inbound_request_id: context.inboundRequestId,
    method,
    route: context.route,
    status,
    problem: context.problem,
    duration_ms: durationMs,
    user_id: context.userId,
    api_key_id: context.apiKeyId,
    ip: context.clientIp,
  });
}
