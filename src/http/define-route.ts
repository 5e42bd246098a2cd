/** Registers routes with Hono, adds them to the OpenAPI description, and serves them. */
import * as z from "zod";
import type { Actor, ActorOf, Credential } from "../platform/actor.ts";
import { type Config, config } from "../platform/config.ts";
import { VENUE_ID } from "../platform/venues.ts";
import { type FieldError, invalidRequest, problem } from "../platform/problem.ts";
import { respond } from "./edge.ts";
import { QueryText } from "./fields.ts";
import { hasNamedCursor, nameCursor, unnameCursor } from "./cursor.ts";
import { chargeRead, limitActor, limitAddress } from "./rate-limit.ts";
import * as read from "./request.ts";
import type { EdgeContext, RequestContext } from "./request-context.ts";
import { jsonResponse, ownResponse } from "./respond.ts";
import {
  type Api,
  type Documented,
  type NoFields,
  Reply,
  type RouteDefinition,
  type StreamDefinition,
} from "./route-definition.ts";

export function route<
  const C extends Credential,
  ResponseSchema extends z.ZodType,
  Query extends z.ZodType = NoFields,
  Body extends z.ZodType = NoFields,
  Fields extends z.ZodObject = NoFields,
>(api: Api, definition: RouteDefinition<Query, Body, Fields, ResponseSchema, C>): void {
  const { path } = definition;
  const method = definition.method.toUpperCase();
  const methods = api.methods.get(path) ?? [];
  api.methods.set(path, new Set([...methods, method, ...(method === "GET" ? ["HEAD"] : [])]));
  api.documented.push(definition);
  api.hono.on(method, path, (c) => respond(c, (context) => serve(api, definition, c, context)));
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

/** Runs the checks in the order of contract.md section 2, then the handler. */
async function serve<
  Query extends z.ZodType,
  Body extends z.ZodType,
  Fields extends z.ZodObject,
  ResponseSchema extends z.ZodType,
  C extends Credential,
>(
  api: Api,
  definition: RouteDefinition<Query, Body, Fields, ResponseSchema, C>,
  c: EdgeContext,
  context: RequestContext,
): Promise<Response> {
  context.route = definition.path;
  context.verb = definition.operationId;
  const settings = config(c.env);
  const request = c.req.raw;
  // 413 and 429 come before any credential. The router checks 404 and 405.
  const bytes = await read.readBody(request);
  await limitAddress(c.env, settings, context.clientIp);
  // 426 and 400 come before the handler, so that a rejected upgrade does not consume the ticket.
  if (definition.stream && request.headers.get("upgrade")?.toLowerCase() !== "websocket")
    throw problem("websocket_required", "This path requires a websocket upgrade.");
  const { scope, keyScopes } = definition;
  const credential: Credential = definition.credential;
  let actor: Actor | undefined;
  if (credential !== "public") {
    const { rightsChanged } = api;
    const incoming = { request, body: bytes, env: c.env, settings, context, rightsChanged };
    actor = await api.authenticate(incoming, { credential, scope, keyScopes });
    context.rateClass = definition.rateClass ?? scope ?? "auth";
    await limitActor(c.env, settings, context.rateClass, actor);
  }
  read.checkContentType(request, bytes);
  const input = readInput(definition, { request, bytes, actor, settings });
  context.mutating = definition.method !== "get" || definition.stream === true;
  const result = await definition.handler({
    api,
    env: c.env,
    db: c.env.DB,
    settings,
    request,
    requestId: context.requestId,
    clientIp: context.clientIp,
    receivedAt: context.startedAt,
    waitUntil: context.waitUntil,
    ...input,
    actor: actorOf<C>(actor),
  });
  if (definition.notices === true && actor !== undefined) {
    const credentials = definition.endsCredentials === true ? "ended" : "kept";
    context.waitUntil(api.rightsChanged(c.env, actor.userId, credentials));
  }
  const status = definition.status ?? 200;
  if (result instanceof Reply)
    return jsonResponse(result.body, result.status ?? status, result.headers);
  const charged = chargeRead(c.env, settings, { context, actor, response: result });
  if (charged !== undefined) context.waitUntil(charged);
  if (result instanceof Response) return ownResponse(result);
  return jsonResponse(withNamedCursor(definition, result), status);
}

/** A page whose cursor names its operation. */
function withNamedCursor(
  { query, operationId }: Pick<Documented, "query" | "operationId">,
  page: unknown,
): unknown {
  if (!hasNamedCursor(query) || typeof page !== "object" || page === null) return page;
  const cursor = "next_cursor" in page ? page.next_cursor : null;
  if (typeof cursor !== "string") return page;
  return { ...page, next_cursor: nameCursor(operationId, cursor) };
}

/** Safe cast: `Authenticate` has checked that the credential is of the route's kind. */
function actorOf<C extends Credential>(actor: Actor | undefined): ActorOf<C> {
  return actor as ActorOf<C>;
}

type Input<Query extends z.ZodType, Body extends z.ZodType, Fields extends z.ZodType> = {
  query: z.output<Query>;
  body: z.output<Body>;
  fields: z.output<Fields>;
  idempotencyKey: string | undefined;
};

function readInput<Query extends z.ZodType, Body extends z.ZodType, Fields extends z.ZodObject>(
  definition: Pick<
    RouteDefinition<Query, Body, Fields, z.ZodType, Credential>,
    "method" | "operationId" | "query" | "body" | "fields" | "idempotent"
  >,
  incoming: { request: Request; bytes: Uint8Array; actor: Actor | undefined; settings: Config },
): Input<Query, Body, Fields> {
  const { request, bytes, actor, settings } = incoming;
  const errors: FieldError[] = [];
  const inQuery = read.queryFields(request.url, errors);
  const inBody = definition.method === "get" ? {} : read.bodyFields(bytes, errors);
  if (definition.method === "get" && bytes.byteLength > 0)
    errors.push({ path: "body", message: "must be empty for a GET" });
  const check = (schema: z.ZodType, given: read.RawFields, place: read.Where): unknown => {
    const found = read.validate(schema, given, place, errors);
    checkVenues(settings, given, place, errors);
    return found;
  };
  const input: Record<keyof Input<Query, Body, Fields>, unknown> = {
    query: undefined,
    body: undefined,
    fields: undefined,
    idempotencyKey: undefined,
  };
  if (definition.fields !== undefined) {
    const body = inBody ?? {};
    const merged = read.mergeFields(definition.fields, inQuery, body, errors);
    const place = (name: string) => read.placeOf(name, inQuery, body);
    input.fields = inBody && check(definition.fields, merged, place);
  } else {
    const { last_cursor: cursor } = inQuery;
    if (cursor instanceof QueryText && hasNamedCursor(definition.query))
      inQuery["last_cursor"] = new QueryText(unnameCursor(definition.operationId, cursor.text));
    input.query = check(definition.query ?? NO_FIELDS, inQuery, "query");
    if (definition.idempotent === true)
      input.idempotencyKey = takeIdempotencyKey(request, inBody, actor, errors);
    input.body = inBody && check(definition.body ?? NO_FIELDS, inBody, "body");
  }
  if (errors.length > 0) throw invalidRequest(errors);
  return validated<Input<Query, Body, Fields>>(input);
}

/** Venue ids are configuration. Schemas report malformed ones, and this reports unknown ones. */
function checkVenues(
  { VENUES }: Config,
  given: read.RawFields,
  place: read.Where,
  errors: FieldError[],
): void {
  const served = VENUES.map(({ venue_id }) => venue_id);
  for (const name of ["venue_id", "venue"]) {
    const value = given[name];
    const venue = value instanceof QueryText ? value.text : value;
    if (typeof venue !== "string" || !VENUE_ID.test(venue) || served.includes(venue)) continue;
    const path = `${typeof place === "string" ? place : place(name)}.${name}`;
    if (!errors.some((error) => error.path === path))
      errors.push({ path, message: `must be one of ${served.join(", ")}` });
  }
}

const NO_FIELDS = z.strictObject({});

/** Safe cast: the schema of each type has produced its member, or there were errors. */
function validated<Of>(input: { readonly [Name in keyof Of]: unknown }): Of {
  return input as Of;
}

/**
 * The idempotency key of the header or the body. Removes it from the body, because the key is bound
 * to the rest. A key with `require_idempotency` needs it in the body, because the signature covers
 * no header: without it a captured call could be repeated with another one.
 */
function takeIdempotencyKey(
  request: Request,
  body: Record<string, unknown> | undefined,
  actor: Actor | undefined,
  errors: FieldError[],
): string | undefined {
  const header = request.headers.get("idempotency-key");
  const field = body?.["idempotency_key"];
  if (body !== undefined) delete body["idempotency_key"];
  if (field === undefined && body !== undefined && requiresIdempotency(actor))
    errors.push({
      path: "body.idempotency_key",
      message: "is required, because the API key has require_idempotency",
    });
  if (header !== null && !KEY.test(header))
    errors.push({ path: "header.idempotency-key", message: KEY_RULE });
  if (field !== undefined && (typeof field !== "string" || !KEY.test(field)))
    errors.push({ path: "body.idempotency_key", message: KEY_RULE });
  else if (field !== undefined && header !== null && field !== header)
    errors.push({
      path: "body.idempotency_key",
      message: "must equal the header Idempotency-Key",
    });
  return header ?? (typeof field === "string" ? field : undefined);
}

export function requiresIdempotency(actor: Actor | undefined): boolean {
  return actor?.credential.kind === "api_key" && actor.credential.requireIdempotency === true;
}

const KEY = /^[\x21-\x7e]{1,128}$/;
const KEY_RULE = "must be 1 to 128 visible ASCII characters";
