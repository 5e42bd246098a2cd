/** The API reference: the OpenAPI description, and a page to read it and to send requests. */
import * as z from "zod";
import { route } from "../define-route.ts";
import { respond } from "../edge.ts";
import { described, oneOf } from "../fields.ts";
import { pageResponse, SCRIPT_PATH, scriptResponse } from "./page.ts";
import type { EdgeContext } from "../request-context.ts";
import type { Api } from "../route-definition.ts";

/** https://llmstxt.org */
const LLMS = `# Custody and RFQ trading

> Holds users' funds and runs request-for-quote trading on prediction markets.

- Amounts are integers in native units (6 decimals), as text. Prices are integers scaled by 1e6.
- Send a session (Authorization: Bearer) or sign with an API key (APIKEY, X-Hmac-Timestamp in
  milliseconds, X-Hmac-Signature). GET /auth/whoami tests a signer.
- Errors are application/problem+json. Decide by code, an unknown code by its status.
- Repeat a write only if it has x-repeatable, with the same key or id.
- Ignore fields, events and codes that you do not know. The service rejects fields it does not know.

## Descriptions

- [OpenAPI](/openapi.json): every operation, record, error and example
- [AsyncAPI](/asyncapi.json): the websocket streams and their commands
- [Reference](/docs): both as a page for people
- [Configuration](/config): venues, chains, fees and limits of this deployment
`;

export function registerDocsRoutes(app: Api): void {
  route(app, {
    method: "get",
    path: "/openapi.json",
    operationId: "getOpenApi",
    tag: "Service",
    summary: "Get this description (OpenAPI 3.1)",
    description: "It is made from the code that checks the requests.",
    credential: "public",
    response: z.object({}).meta({
      type: "object",
      description: "An OpenAPI document",
      examples: [{ openapi: "3.1.0" }],
    }),
    // Imported on the first request, because Node imports this file too and cannot import the data.
    handler: async () => descriptionOf(await import("../../../dist/reference/openapi.json.bin")),
  });
  route(app, {
    method: "get",
    path: "/asyncapi.json",
    operationId: "getAsyncApi",
    tag: "Service",
    summary: "Get the description of the streams (AsyncAPI 3.0)",
    description: "It contains every schema that it refers to.",
    credential: "public",
    response: z.object({}).meta({
      type: "object",
      description: "An AsyncAPI document",
      examples: [{ asyncapi: "3.0.0" }],
    }),
    handler: async () => descriptionOf(await import("../../../dist/reference/asyncapi.json.bin")),
  });
  route(app, {
    method: "get",
    path: "/docs",
    operationId: "getDocs",
    tag: "Service",
    summary: "Get both descriptions as a web page that can send requests",
    description: "The page loads nothing from other servers.",
    credential: "public",
    // The page's script adds it to the address when the reader changes the description.
    query: z.strictObject({
      api: described(oneOf(["rest", "streams"]), "The description that is shown first").optional(),
    }),
    response: z.string().meta({ examples: ["<!doctype html><html>…</html>"] }),
    mediaType: "text/html",
    handler: pageResponse,
  });
  route(app, {
    method: "get",
    path: "/llms.txt",
    operationId: "getLlms",
    tag: "Service",
    summary: "Get a short guide to this service for language models",
    description: "It names the descriptions and the rules that hold for every call.",
    credential: "public",
    response: z.string().meta({ examples: [LLMS] }),
    mediaType: "text/plain",
    handler: () => new Response(LLMS, { headers: { "content-type": "text/plain; charset=utf-8" } }),
  });
  // The script is not in the description, because it is a part of the page.
  app.methods.set(SCRIPT_PATH, new Set(["GET", "HEAD"]));
  app.hono.get(SCRIPT_PATH, (c) => respond(c, () => scriptResponse(c.req.raw)));
  for (const path of ["/", "/docs/"]) app.hono.get(path, redirectBrowser);
}

/** scripts/build-reference.ts makes it of docs/openapi.json or docs/asyncapi.json. */
function descriptionOf({ default: bytes }: { readonly default: ArrayBuffer }): Response {
  return new Response(bytes, {
    headers: { "content-type": "application/json", "cache-control": "public, max-age=300" },
  });
}

/** Redirects a browser to the page. Other clients receive 404. */
function redirectBrowser(c: EdgeContext): Response | Promise<Response> {
  const accepted = c.req.header("accept") ?? "";
  return accepted.includes("text/html") ? respond(c, () => c.redirect("/docs")) : c.notFound();
}
