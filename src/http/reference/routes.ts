/** The reference: its description as JSON, and a page to read it and try it with. Nothing of it comes from elsewhere. */
import { z } from "@hono/zod-openapi";
import { Scalar } from "@scalar/hono-api-reference";
import { Hono } from "hono";
import { route } from "../define-route.ts";
import { jsonResponse } from "../respond.ts";
import { describeApi } from "./describe.ts";
import { SCRIPT_PATH, scriptResponse } from "./script.ts";
import type { Api } from "../route-definition.ts";

export function registerDocsRoutes(app: Api): void {
  let description: unknown;
  route(app, {
    method: "get",
    path: "/openapi.json",
    tag: "Service",
    summary: "This description (OpenAPI 3.1)",
    credential: "public",
    answer: z.object({}).openapi({
      type: "object",
      description: "An OpenAPI document",
      examples: [{ openapi: "3.1.0" }],
    }),
    handler: () => {
      // Made at the first request: by then every route is registered.
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
    answer: z.string().openapi({ examples: ["<!doctype html><html>…</html>"] }),
    mediaType: "text/html",
    handler: pageResponse,
  });
  // A file of the page and no call of the API: it is not described.
  app.methods.set(SCRIPT_PATH, new Set(["GET", "HEAD"]));
  app.hono.get(SCRIPT_PATH, (c) => scriptResponse(c.req.raw));
}

const page = new Hono().get(
  "/",
  Scalar((c) => {
    const nonce = crypto.randomUUID();
    c.header("content-security-policy", contentPolicy(nonce));
    return {
      url: "/openapi.json",
      pageTitle: "Custody and RFQ trading: reference",
      cdn: SCRIPT_PATH,
      nonce,
      theme: "default",
      // All of these would call on someone else's server.
      withDefaultFonts: false,
      telemetry: false,
      hideClientButton: true,
      showDeveloperTools: "never",
      agent: { disabled: true },
      mcp: { disabled: true },
    };
  }),
);

/** With an icon that is there: browsers ask for /favicon.ico otherwise, and show its 404 to whoever reads the page. */
async function pageResponse({ request }: { request: Request }): Promise<Response> {
  const response = await page.fetch(new Request(new URL("/", request.url)));
  const html = await response.text();
  return new Response(
    html.replace("<head>", '<head>\n    <link rel="icon" href="data:," />'),
    response,
  );
}

/** The page may run its own script, show what it holds, and call this service: nothing else. */
function contentPolicy(nonce: string): string {
  return [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    // The script styles elements as it goes, without a nonce.
    "style-src 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}
