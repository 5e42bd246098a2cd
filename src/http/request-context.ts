/** One request and its answer, as the edge sees them: what handlers, faults and the log line share. */
import type { Hono } from "hono";

export type Exchange = {
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
  acting: boolean;
  /** Work that goes on after the answer. */
  readonly later: (work: Promise<unknown>) => void;
};

export type EdgeEnv = { Bindings: Cloudflare.Env; Variables: { exchange: Exchange } };
export type EdgeContext = Parameters<Parameters<Hono<EdgeEnv>["notFound"]>[0]>[0];

export function newExchange(request: Request, later: Exchange["later"]): Exchange {
  return {
    requestId: crypto.randomUUID(),
    inboundRequestId: request.headers.get("x-request-id")?.slice(0, 128) ?? null,
    startedAt: Date.now(),
    clientIp: request.headers.get("cf-connecting-ip") ?? undefined,
    route: null,
    userId: null,
    apiKeyId: null,
    acting: false,
    later,
  };
}
