/** Registers routes: their description for OpenAPI and the handler that serves them. */
import { createRoute, z } from "@hono/zod-openapi";
import type { Credential } from "../platform/actor.ts";
import { describeRoute } from "./openapi.ts";
import type { Api, NoFields, RouteDefinition, StreamDefinition } from "./route-definition.ts";
import { serve, serveStream } from "./serve-route.ts";

export function route<
  const C extends Credential,
  ResponseSchema extends z.ZodType,
  Query extends z.ZodType = NoFields,
  Body extends z.ZodType = NoFields,
  Fields extends z.ZodObject = NoFields,
>(api: Api, definition: RouteDefinition<Query, Body, Fields, ResponseSchema, C>): void {
  checkDefinition(definition);
  addMethod(api, definition.path, definition.method);
  api.hono.openAPIRegistry.registerPath(createRoute(describeRoute(definition)));
  api.hono.on(definition.method.toUpperCase(), definition.path, (c) => serve(api, definition, c));
}

/** A websocket stream: no credential but its ticket, which the handler consumes after 426 and 400 are out of the way. */
export function streamRoute<Query extends z.ZodType>(
  api: Api,
  definition: StreamDefinition<Query>,
): void {
  const documented = {
    ...definition,
    method: "get",
    tag: "Streams",
    credential: "public",
    stream: true,
    response: z.undefined(),
  } as const;
  addMethod(api, definition.path, "get");
  api.hono.openAPIRegistry.registerPath(createRoute(describeRoute(documented)));
  api.hono.get(definition.path, (c) => serveStream(api, definition, c));
}

function addMethod(api: Api, path: string, method: string): void {
  const methods = api.methods.get(path) ?? new Set<string>();
  methods.add(method.toUpperCase());
  if (method === "get") methods.add("HEAD");
  api.methods.set(path, methods);
}

/** A mistake in a definition stops the Worker at its start, not a caller at a lost field. */
function checkDefinition(definition: {
  path: string;
  method: string;
  query?: z.ZodType;
  body?: z.ZodType;
  fields?: z.ZodType;
}): void {
  const errors: string[] = [];
  if (definition.fields !== undefined && definition.method !== "delete")
    errors.push("fields are for DELETE");
  if (
    definition.method === "delete" &&
    (definition.query !== undefined || definition.body !== undefined)
  )
    errors.push("a DELETE takes fields");
  if (definition.method === "get" && definition.body !== undefined)
    errors.push("a GET takes no body");
  for (const schema of [definition.query, definition.body, definition.fields]) {
    if (schema instanceof z.ZodObject && !(schema.def.catchall instanceof z.ZodNever))
      errors.push("use z.strictObject");
  }
  if (errors.length > 0)
    throw new Error(`${definition.method} ${definition.path}: ${errors.join(", ")}`);
}
