/** Registers routes with Hono and adds them to the OpenAPI description. */
import * as z from "zod";
import type { Credential } from "../platform/actor.ts";
import { respond } from "./edge.ts";
import type { Api, NoFields, RouteDefinition, StreamDefinition } from "./route-definition.ts";
import { serve } from "./serve-route.ts";

export function route<
  const C extends Credential,
  ResponseSchema extends z.ZodType,
  Query extends z.ZodType = NoFields,
  Body extends z.ZodType = NoFields,
  Fields extends z.ZodObject = NoFields,
>(api: Api, definition: RouteDefinition<Query, Body, Fields, ResponseSchema, C>): void {
  addMethod(api, definition.path, definition.method);
  api.documented.push(definition);
  api.hono.on(definition.method.toUpperCase(), definition.path, (c) =>
    respond(c, (context) => serve(api, definition, c, context)),
  );
}

/** Registers a websocket stream. Its only credential is the ticket, which the handler consumes. */
export function streamRoute<Query extends z.ZodType>(
  api: Api,
  definition: StreamDefinition<Query>,
): void {
  route(api, {
    ...definition,
    method: "get",
    tag: "Streams",
    credential: "public",
    stream: true,
    response: z.undefined(),
  });
}

function addMethod(api: Api, path: string, method: string): void {
  const methods = api.methods.get(path) ?? new Set<string>();
  methods.add(method.toUpperCase());
  if (method === "get") methods.add("HEAD");
  api.methods.set(path, methods);
}
