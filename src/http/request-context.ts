/** The state of one request that handlers, error responses and the request log share. */
import type { Hono } from "hono";
import type { ProblemCode } from "../platform/problem.ts";
import { now } from "../platform/time.ts";
import type { RateClass } from "./rate-limit.ts";

export type RequestContext = {
  /** UUID v4 made by the server: the `x-request-id` of the response. */
  readonly requestId: string;
  /** The caller's x-request-id. Only logged. */
  readonly inboundRequestId: string | null;
  /** Unix milliseconds. */
  readonly startedAt: number;
  /** From CF-Connecting-IP and no other header. The local stack sets it to 127.0.0.1. */
  readonly clientIp: string | undefined;
  /** The path without the query, because the query may contain a ticket. */
  route: string | null;
  /** The operation, or `none` if no documented route serves the request. */
  verb: string;
  userId: string | null;
  apiKeyId: string | null;
  /** The code of the error response. */
  problem: ProblemCode | null;
  /** The rate limits of the user and the credential that the request counted for. */
  rateClass: RateClass | undefined;
  /** Whether a handler that changes state has started. Until then an error's outcome is `none`. */
  mutating: boolean;
  /** Continues work after the response. */
  readonly waitUntil: (work: Promise<unknown>) => void;
};

export type EdgeEnv = { Bindings: Cloudflare.Env };
export type EdgeContext = Parameters<Parameters<Hono<EdgeEnv>["notFound"]>[0]>[0];

export function newRequestContext(
  request: Request,
  waitUntil: RequestContext["waitUntil"],
): RequestContext {
  return {
    requestId: crypto.randomUUID(),
    // Only the requests that are logged read it.
    get inboundRequestId() {
      return request.headers.get("x-request-id")?.slice(0, 128) ?? null;
    },
    startedAt: now(),
    clientIp: request.headers.get("cf-connecting-ip") ?? undefined,
    route: null,
    verb: "none",
    userId: null,
    apiKeyId: null,
    problem: null,
    rateClass: undefined,
    mutating: false,
    waitUntil,
  };
}
