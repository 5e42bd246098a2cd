/**
 * The log of requests. A failed or slow request is always logged. Of the others, one in
 * LOG_SUCCESS_ONE_IN is, because a line costs more than a cheap read. The metrics count all.
 */
import type { Config } from "../platform/config.ts";
import { log } from "../platform/log.ts";
import { now } from "../platform/time.ts";
import type { RequestContext } from "./request-context.ts";

type Settings = Pick<Config, "LOG_SUCCESS_ONE_IN" | "LOG_SLOW_MS">;

/** `settings` is undefined if they are invalid. Then every request is logged. */
export function logRequest(
  context: RequestContext,
  { method, status }: { method: string; status: number },
  settings: Settings | undefined,
): void {
  const durationMs = now() - context.startedAt;
  if (settings !== undefined && !isLogged(context, { status, durationMs }, settings)) return;
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

/** The choice depends on the request's id alone, so that support can tell whether a line exists. */
function isLogged(
  { requestId }: RequestContext,
  { status, durationMs }: { status: number; durationMs: number },
  { LOG_SUCCESS_ONE_IN: oneIn, LOG_SLOW_MS: slowMs }: Settings,
): boolean {
  if (status >= 400 || durationMs >= slowMs) return true;
  return Number.parseInt(requestId.slice(0, 8), 16) % oneIn === 0;
}
