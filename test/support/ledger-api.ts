/** The custody routes behind an edge whose credential check is the test's own: what they answer, not who may ask. */
import { OpenAPIHono } from "@hono/zod-openapi";
import { env } from "cloudflare:workers";
import { registerCustodyRoutes } from "../../src/custody/routes.ts";
import { type EdgeEnv, newRequestContext } from "../../src/http/request-context.ts";
import { errorResponse } from "../../src/http/respond.ts";
import type { Actor } from "../../src/platform/actor.ts";
import type { Api } from "../../src/http/route-definition.ts";

type Answered = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: Record<string, any>;
};
export type Caller = {
  get(path: string, headers?: Record<string, string>): Promise<Answered>;
  post(path: string, body: unknown): Promise<Answered>;
};

/** Calls custody routes as `actor`. Settings of `overrides` replace those of the test environment. */
export function custodyAs(actor: Actor, overrides: Record<string, string> = {}): Caller {
  const hono = new OpenAPIHono<EdgeEnv>();
  const later: Promise<unknown>[] = [];
  const context = {
    waitUntil: (work: Promise<unknown>) => void later.push(work),
    passThroughOnException: () => {},
    props: {},
  };
  hono.use(async (c, next) => {
    c.set("context", newRequestContext(c.req.raw, context.waitUntil));
    await next();
  });
  hono.onError((error, c) => errorResponse(error, c.get("context")));
  const api: Api = {
    hono,
    authenticate: async () => actor,
    credentialsEnded: async () => {},
    methods: new Map(),
  };
  registerCustodyRoutes(api);
  const bindings = { ...env, ...overrides };
  const call = async (path: string, init: RequestInit): Promise<Answered> => {
    const response = await hono.fetch(new Request(`http://test${path}`, init), bindings, context);
    const text = await response.text();
    await Promise.allSettled(later.splice(0));
    const json = (response.headers.get("content-type") ?? "").includes("json")
      ? JSON.parse(text)
      : {};
    return { status: response.status, headers: response.headers, text, json };
  };
  return {
    get: (path, headers = {}) => call(path, { headers }),
    post: (path, body) =>
      call(path, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
  };
}

/** An address that is nobody's. */
export function freshAddress(): string {
  return `0x${[...crypto.getRandomValues(new Uint8Array(20))].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
