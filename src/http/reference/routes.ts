/** The API reference: the description as JSON, and a page to read it and to send requests from. */
import { z } from "@hono/zod-openapi";
import { route } from "../define-route.ts";
import { jsonResponse } from "../respond.ts";
import { describeApi } from "./describe.ts";
import { pageResponse } from "./page.ts";
import { SCRIPT_PATH, scriptResponse } from "./script.ts";
import type { EdgeContext } from "../request-context.ts";
import type { Api } from "../route-definition.ts";

export function registerDocsRoutes(app: Api): void {
  let description: unknown;
  route(app, {
    method: "get",
    path: "/openapi.json",
    tag: "Service",
    summary: "This description (OpenAPI 3.1)",
    credential: "public",
    response: z.object({}).openapi({
      type: "object",
      description: "An OpenAPI document",
      examples: [{ openapi: "3.1.0" }],
    }),
    handler: () => {
      // Built at the first request, because all routes are registered by then.
      description ??= describeApi(app);
      return jsonResponse(description, 200, { "cache-control": "public, max-age=300" });
    },
  });
  route(app, {
    method: "get",
    path: "/docs",
    tag: "Service",
    summary: "This description as a page to read and to try",
    credential: "public",
    response: z.string().openapi({ examples: ["<!doctype html><html>…</html>"] }),
    mediaType: "text/html",
    handler: pageResponse,
  });
  // The description leaves this file out, because it is part of the page and no call of the API.
  app.methods.set(SCRIPT_PATH, new Set(["GET", "HEAD"]));
  app.hono.get(SCRIPT_PATH, (c) => scriptResponse(c.req.raw));
  for (const path of ["/", "/docs/"]) app.hono.get(path, redirectBrowser);
}

/** A person who opens one of these paths in a browser gets the page; a program gets 404. */
function redirectBrowser(c: EdgeContext): Response | Promise<Response> {
  const accepted = c.req.header("accept") ?? "";
  return accepted.includes("text/html") ? c.redirect("/docs") : c.notFound();
}
