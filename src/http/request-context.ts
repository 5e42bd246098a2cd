/** One request and its answer, as the edge sees them: what handlers, errors and the log line share. */
import type { Hono } from "hono";

export type RequestContext = {
  /** Server-made UUID v4: the `x-request-id` of the answer. */
  readonly requestId: string;
  /** The caller's own x-request-id: logged, never adopted. */
  readonly inboundRequestId: string | null;
  readonly startedAt: number;
  /** CF-Connecting-IP and no other header; the local stack sets it to 127.0.0.1. */
  readonly clientIp: string | undefined;
  /** Path of the route, without the query, which may hold a ticket. */
  route: string | null;
  userId: string | null;
  apiKeyId: string | null;
  /** Whether a handler that changes state has begun: until then a fault's outcome is `none`. */
  mutating: boolean;
  /** Work that goes on after the answer. */
  readonly waitUntil: (work: Promise<unknown>) => void;
};

export type EdgeEnv = { Bindings: Cloudflare.Env; Variables: { context: RequestContext } };
export type EdgeContext = Parameters<Parameters<Hono<EdgeEnv>["notFound"]>[0]>[0];

export function newRequestContext(
  request: Request,
  waitUntil: RequestContext["waitUntil"],
): RequestContext {
  return {
    requestId: crypto.randomUUID(),
    inboundRequestId: request.headers.get("x-request-id")?.slice(0, 128) ?? null,
    startedAt: Date.now(),
    clientIp: request.headers.get("cf-connecting-ip") ?? undefined,
    route: null,
    userId: null,
    apiKeyId: null,
    mutating: false,
    waitUntil,
  };
}
