/**
 * What every request has: an id, the common headers, an error response, and its place in the log.
 */
import { type Config, config } from "../platform/config.ts";
import { counts } from "../platform/counts.ts";
import { now } from "../platform/time.ts";
import { type EdgeContext, newRequestContext, type RequestContext } from "./request-context.ts";
import { logRequest } from "./request-log.ts";
import { addCors, addRatePolicies, errorResponse, finish } from "./respond.ts";

/**
 * Wraps every handler: makes the request's id, turns a thrown value into a response, adds the
 * common headers and logs the request. Hono serves a route without middleware in fewer steps, so
 * this is a function that routes call.
 */
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
    addRatePolicies(response, context, settings);
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
