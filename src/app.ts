/**
 * The HTTP edge: one Hono app with every domain's routes.
 *
 * Errors are checked in the order of contract.md section 2: 404 and 405 here, then 413, 429 by
 * address, 401, 403, 429 by credential, 415 and 400 in define-route.ts, then those of the verbs.
 * Every handler runs in `respond` (http/edge.ts).
 */
import { Hono } from "hono";
import { authenticate } from "./auth/authenticate.ts";
import { registerAuthRoutes } from "./auth/routes.ts";
import { registerCustodyRoutes } from "./custody/routes.ts";
import { registerFeedRoutes } from "./feeds/routes.ts";
import { registerWebhookRoutes } from "./feeds/webhooks/routes.ts";
import { registerDocsRoutes } from "./http/reference/routes.ts";
import { respond } from "./http/edge.ts";
import { config } from "./platform/config.ts";
import type { EdgeContext, EdgeEnv, RequestContext } from "./http/request-context.ts";
import { Problem, problem } from "./platform/problem.ts";
import { registerServiceRoutes } from "./operator/service-routes.ts";
import { registerLiabilityRoutes } from "./reconcile/liabilities/routes.ts";
import { registerPublicRoutes } from "./public-routes.ts";
import { preflight } from "./http/respond.ts";
import { endingSessions, freezeAccount, narrowingRights } from "./rfq/end-with-rights.ts";
import { registerRfqRoutes } from "./rfq/routes.ts";
import { rightsChanged } from "./streams/close-ended.ts";
import { registerStreamRoutes } from "./streams/routes.ts";
import type { Api } from "./http/route-definition.ts";

export function createApp(): Api {
  const hono = new Hono<EdgeEnv>();
  const app: Api = {
    hono,
    authenticate,
    freezeAccount,
    narrowingRights,
    endingSessions,
    rightsChanged,
    documented: [],
    methods: new Map(),
  };
  hono.notFound((c) => respond(c, (context) => unrouted(app, c, context)));
  registerPublicRoutes(app);
  registerAuthRoutes(app);
  registerCustodyRoutes(app);
  registerLiabilityRoutes(app);
  registerRfqRoutes(app);
  registerStreamRoutes(app);
  registerFeedRoutes(app);
  registerWebhookRoutes(app);
  registerServiceRoutes(app);
  registerDocsRoutes(app);
  return app;
}

function unrouted(app: Api, c: EdgeContext, context: RequestContext): Response {
  const methods = app.methods.get(c.req.path);
  if (methods === undefined) throw problem("route_unknown", "No such path.");
  context.route = c.req.path;
  const allowed = [...methods].toSorted();
  const isPreflight =
    c.req.method === "OPTIONS" && c.req.raw.headers.has("access-control-request-method");
  if (isPreflight && config(c.env).CORS_ORIGINS.length > 0) return preflight(allowed);
  const allow = allowed.join(", ");
  const detail = `This path supports ${allow}.`;
  throw new Problem({ code: "method_not_allowed", detail, headers: { allow } });
}
