/**
 * The HTTP edge: one Hono app with every domain's routes.
 *
 * Order of faults (contract.md section 2): the router answers 404 and 405; `route` then goes through 413, 429 by
 * address, 401, 403, 429 by credential, 415, 400; verbs throw the rest. Every answer leaves through `finish`.
 */
import { OpenAPIHono } from "@hono/zod-openapi";
import { authenticate } from "./auth/authenticate.ts";
import { registerAuthRoutes } from "./auth/routes.ts";
import { registerCustodyRoutes } from "./custody/routes.ts";
import { registerDocsRoutes } from "./http/reference/routes.ts";
import { config } from "./platform/config.ts";
import { type EdgeContext, type EdgeEnv, newExchange } from "./http/request-context.ts";
import { problem } from "./platform/problem.ts";
import { registerPublicRoutes } from "./http/public-routes.ts";
import { addCors, faultResponse, finish, logExchange, preflight } from "./http/respond.ts";
import { registerRfqRoutes } from "./rfq/routes.ts";
import { closeSockets } from "./streams/notify.ts";
import { registerStreamRoutes } from "./streams/routes.ts";
import type { Api, CredentialsEnded } from "./http/route-definition.ts";

export function createApp(): Api {
  const hono = new OpenAPIHono<EdgeEnv>();
  const app: Api = { hono, authenticate, credentialsEnded: endSockets, methods: new Map() };
  hono.use(edge);
  hono.onError((error, c) => faultResponse(error, c.get("exchange")));
  hono.notFound((c) => unrouted(app, c));
  registerPublicRoutes(app);
  registerAuthRoutes(app);
  registerCustodyRoutes(app);
  registerRfqRoutes(app);
  registerStreamRoutes(app);
  registerDocsRoutes(app);
  return app;
}

const endSockets: CredentialsEnded = (env, { userId, which, streams }) => {
  if (which.kind === "api_key") return closeSockets(env, streams, { apiKeyId: which.apiKeyId });
  return closeSockets(
    env,
    streams,
    which.kind === "sessions" ? { sessionsOf: userId } : { userId },
  );
};

/** Around everything: makes the request id, turns what was thrown into an answer, adds the common fields, logs one line. */
async function edge(c: EdgeContext, next: () => Promise<void>): Promise<void> {
  const exchange = newExchange(c.req.raw, (work) => c.executionCtx.waitUntil(work));
  c.set("exchange", exchange);
  try {
    await next();
  } catch (error) {
    // Hono hands Errors to onError; anything else that is thrown arrives here.
    c.res = faultResponse(error, exchange);
  }
  finish(c.res, exchange);
  try {
    addCors(c.res, c.req.raw, config(c.env));
  } catch {
    // Settings that do not parse were the fault itself, answered and logged above.
  }
  logExchange(exchange, c.req.raw, c.res.status);
}

function unrouted(app: Api, c: EdgeContext): Response {
  const exchange = c.get("exchange");
  const methods = app.methods.get(c.req.path);
  if (methods === undefined)
    return faultResponse(problem("route_unknown", "No route has this path."), exchange);
  exchange.route = c.req.path;
  const allowed = [...methods].sort();
  const isPreflight =
    c.req.method === "OPTIONS" && c.req.raw.headers.has("access-control-request-method");
  if (isPreflight && config(c.env).CORS_ORIGINS.length > 0) return preflight(allowed);
  const refused = problem("method_not_allowed", `This path takes ${allowed.join(", ")}.`);
  const response = faultResponse(refused, exchange);
  response.headers.set("allow", allowed.join(", "));
  return response;
}
