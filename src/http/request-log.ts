/**
 * The log of requests. A failed or slow request is always logged. Of the others, one in
 * LOG_SUCCESS_ONE_IN is, and the rest are counted, because a line costs more than a cheap read.
 *
 * An isolate that ends takes the counts of its last minute with it.
 */
import type { Config } from "../platform/config.ts";
import { log } from "../platform/log.ts";
import { now } from "../platform/time.ts";
import type { RequestContext } from "./request-context.ts";

const COUNTS_EVERY_MS = 60_000;

type Settings = Pick<Config, "LOG_SUCCESS_ONE_IN" | "LOG_SLOW_MS">;
type Count = { count: number; durationMs: number; maxDurationMs: number };

export class RequestLog {
  /** The requests that have no line, by method, route and status. */
  #counts = new Map<string, Count>();
  #countedSince = 0;

  /** `settings` is undefined if they are invalid. Then every request is logged. */
  add(
    context: RequestContext,
    response: { method: string; status: number },
    settings: Settings | undefined,
  ): void {
    const at = now();
    const durationMs = at - context.startedAt;
    if (settings === undefined || isLogged(context, response.status, durationMs, settings))
      logRequest(context, response, durationMs);
    else this.#count(context, response, durationMs, at);
    if (this.#counts.size > 0 && at - this.#countedSince >= COUNTS_EVERY_MS) this.#logCounts();
  }

  #count(
    { route }: RequestContext,
    { method, status }: { method: string; status: number },
    durationMs: number,
    at: number,
  ): void {
    if (this.#counts.size === 0) this.#countedSince = at;
    // Routes and methods of a success are known ones, so a caller cannot make up keys.
    const key = `${method} ${route} ${status}`;
    const before = this.#counts.get(key) ?? { count: 0, durationMs: 0, maxDurationMs: 0 };
    this.#counts.set(key, {
      count: before.count + 1,
      durationMs: before.durationMs + durationMs,
      maxDurationMs: Math.max(before.maxDurationMs, durationMs),
    });
  }

  #logCounts(): void {
    for (const [request, { count, durationMs, maxDurationMs }] of this.#counts) {
      log("info", "requests_counted", {
        request,
        count,
        duration_ms: durationMs,
        max_duration_ms: maxDurationMs,
      });
    }
    this.#counts = new Map();
  }
}

/** The choice depends on the request's id alone, so that support can tell whether a line exists. */
function isLogged(
  { requestId }: RequestContext,
  status: number,
  durationMs: number,
  { LOG_SUCCESS_ONE_IN: oneIn, LOG_SLOW_MS: slowMs }: Settings,
): boolean {
  if (status >= 400 || durationMs >= slowMs) return true;
  return Number.parseInt(requestId.slice(0, 8), 16) % oneIn === 0;
}

function logRequest(
  context: RequestContext,
  { method, status }: { method: string; status: number },
  durationMs: number,
): void {
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
