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
import { type EdgeContext, type EdgeEnv, newRequestContext } from "./http/request-context.ts";
import { problem } from "./platform/problem.ts";
import { registerPublicRoutes } from "./http/public-routes.ts";
import { addCors, errorResponse, finish, logRequest, preflight } from "./http/respond.ts";
import { registerRfqRoutes } from "./rfq/routes.ts";
import { closeSockets } from "./streams/notify.ts";
import { registerStreamRoutes } from "./streams/routes.ts";
import type { Api, CredentialsEnded } from "./http/route-definition.ts";

export function createApp(): Api {
  const hono = new OpenAPIHono<EdgeEnv>();
  const app: Api = { hono, authenticate, credentialsEnded: endSockets, methods: new Map() };
  hono.use(edge);
  hono.onError((error, c) => errorResponse(error, c.get("context")));
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
  const context = newRequestContext(c.req.raw, (work) => c.executionCtx.waitUntil(work));
  c.set("context", context);
  try {
    await next();
  } catch (error) {
    // Hono hands Errors to onError; anything else that is thrown arrives here.
    c.res = errorResponse(error, context);
  }
  finish(c.res, context);
  try {
    addCors(c.res, c.req.raw, config(c.env));
  } catch {
    // Settings that do not parse were the fault itself, answered and logged above.
  }
  logRequest(context, c.req.raw, c.res.status);
}

function unrouted(app: Api, c: EdgeContext): Response {
  const context = c.get("context");
  const methods = app.methods.get(c.req.path);
  if (methods === undefined)
    return errorResponse(problem("route_unknown", "No route has this path."), context);
  context.route = c.req.path;
  const allowed = [...methods].sort();
  const isPreflight =
    c.req.method === "OPTIONS" && c.req.raw.headers.has("access-control-request-method");
  if (isPreflight && config(c.env).CORS_ORIGINS.length > 0) return preflight(allowed);
  const refused = problem("method_not_allowed", `This path takes ${allowed.join(", ")}.`);
  const response = errorResponse(refused, context);
  response.headers.set("allow", allowed.join(", "));
  return response;
}
