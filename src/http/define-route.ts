/**
 * One call declares a route: its contract (which becomes /openapi.json), who may call it, and a handler of a few lines.
 *
 *   export function registerQuoteRoutes(app: Api): void {
 *     route(app, {
 *       method: "post", path: "/rfq/quote", tag: "RFQ", summary: "Offer a price on an open request",
 *       credential: "any", scope: "trade", idempotent: true,
 *       body: z.strictObject({ request_id: uuidField, price, expires_in_secs: integer(1, 300).optional() }),
 *       answer: Quote, status: 201,
 *       problems: ["request_unknown", "own_request", "insufficient_funds"],
 *       handler: async ({ env, body, actor, idempotencyKey }) => reply(await placeQuote(…), { "idempotency-replayed": "true" }),
 *     });
 *   }
 *
 * - `credential`: `public` (credentials ignored), `any`, `session`, `api_key`. `actor` has the fitting type.
 * - `scope`: what the credential must hold; leave it out where any valid credential will do.
 * - `query`, `body`: `z.strictObject` of the field types in platform/fields.ts and assets/fields.ts, rules over several
 *   fields by `.refine(…, { path: ["name"], message })`. Handlers receive them parsed: bigint, Unix ms, canonical ids.
 * - `fields`: DELETE only, instead of `query` and `body`: fields from the query or a JSON body (both, if equal).
 * - Pages: `query: z.strictObject({ …, ...timeIdPage })`, `answer: pageSchema(Item)`, and `pageOf` (cursor.ts).
 * - `answer`: zod schema of the 2xx body; the handler returns that body, or `reply(body, headers, status)` for other
 *   header fields or another success status, or a raw `Response` (CSV, 101), which also gets x-request-id.
 * - `idempotent`: accepts Idempotency-Key or a body field `idempotency_key`; the handler gets `idempotencyKey`, and a
 *   `body` without it. Replays answer with the header `idempotency-replayed: true`.
 * - `problems`: the codes this route can answer beyond those that every such route has.
 * - Throw `problem(code, detail, extensions)`; the order of faults before the handler is contract.md's.
 */
import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import { type Actor, type ApiKeyActor, rateKeyOf, type SessionActor } from "../auth/actor.ts";
import type { Scope } from "../auth/scope.ts";
import { type Config, config } from "../platform/config.ts";
import type { EdgeContext, EdgeEnv, Exchange } from "./request-context.ts";
import { networkOf } from "./ip-range.ts";
import { describeRoute } from "./openapi.ts";
import { type FieldFault, problem, type ProblemCode } from "../platform/problem.ts";
import { limitRate, type RateClass } from "./rate-limit.ts";
import * as read from "./request.ts";
import { jsonResponse, ownResponse } from "./respond.ts";

export type Credential = "public" | "any" | "session" | "api_key";
export type ActorOf<C extends Credential> = C extends "public"
  ? undefined
  : C extends "session"
    ? SessionActor
    : C extends "api_key"
      ? ApiKeyActor
      : Actor;

/** Proves who calls and that they may: throws the 401 or 403 of the contract's order. Injected by app.ts from auth/. */
export type Authenticate = (
  incoming: {
    request: Request;
    body: Uint8Array;
    env: Cloudflare.Env;
    settings: Config;
    exchange: Exchange;
  },
  needs: { credential: Exclude<Credential, "public">; scope: Scope | undefined },
) => Promise<Actor>;

/** What ends credentials tells whoever holds sockets open with them: the streams that their used tickets opened. */
export type CredentialsEnded = (env: Cloudflare.Env, ended: EndedCredentials) => Promise<void>;
export type EndedCredentials = {
  readonly userId: string;
  readonly which:
    | { readonly kind: "api_key"; readonly apiKeyId: string }
    | { readonly kind: "sessions" }
    | { readonly kind: "all" };
  readonly streams: readonly string[];
};

export type Api = {
  readonly hono: OpenAPIHono<EdgeEnv>;
  readonly authenticate: Authenticate;
  readonly credentialsEnded: CredentialsEnded;
  /** Methods by path, for 405 and preflights. */
  readonly methods: Map<string, Set<string>>;
};

export type Call<Query, Body, Fields, C extends Credential> = {
  readonly env: Cloudflare.Env;
  readonly db: D1Database;
  readonly settings: Config;
  readonly request: Request;
  readonly requestId: string;
  readonly clientIp: string | undefined;
  readonly actor: ActorOf<C>;
  readonly query: Query;
  readonly body: Body;
  readonly fields: Fields;
  readonly idempotencyKey: string | undefined;
  readonly api: Api;
  /** Work that goes on after the answer; its faults are swallowed by the runtime, so it must be repeatable elsewhere. */
  readonly waitUntil: (work: Promise<unknown>) => void;
};

type NoFields = z.ZodObject<Record<never, never>>;

export type RouteDefinition<
  Query extends z.ZodType,
  Body extends z.ZodType,
  Fields extends z.ZodObject,
  Answer extends z.ZodType,
  C extends Credential,
> = {
  readonly method: "get" | "post" | "delete";
  readonly path: `/${string}`;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  readonly credential: C;
  readonly scope?: Scope;
  readonly query?: Query;
  readonly body?: Body;
  readonly fields?: Fields;
  readonly answer: Answer;
  /** Success status; 200 unless given. */
  readonly status?: 200 | 201 | 202;
  readonly answerDescription?: string;
  /** Response fields beyond the common ones, by name with a description. */
  readonly answerHeaders?: Readonly<Record<string, string>>;
  /** Media types of other success answers, e.g. `text/csv`. */
  readonly alsoAnswers?: readonly string[];
  /** Of the success answer; `application/json` unless given, and then the handler answers a `Response`. */
  readonly mediaType?: string;
  readonly idempotent?: boolean;
  readonly problems?: readonly ProblemCode[];
  /** By scope unless given: `read`, `trade`, `withdraw`, and `auth` without a scope. */
  readonly rateClass?: RateClass;
  readonly handler: (
    call: Call<z.output<Query>, z.output<Body>, z.output<Fields>, C>,
  ) => Promise<z.input<Answer> | Reply<z.input<Answer>> | Response> | z.input<Answer> | Response;
};

/** A success answer with header fields or a status of its own. */
export class Reply<Body> {
  readonly body: Body;
  readonly headers: Readonly<Record<string, string>>;
  readonly status: number | undefined;
  constructor(body: Body, headers: Readonly<Record<string, string>>, status: number | undefined) {
    this.body = body;
    this.headers = headers;
    this.status = status;
  }
}

export function reply<Body>(
  body: Body,
  headers: Readonly<Record<string, string>> = {},
  status?: 200 | 201 | 202,
): Reply<Body> {
  return new Reply(body, headers, status);
}

export function route<
  const C extends Credential,
  Answer extends z.ZodType,
  Query extends z.ZodType = NoFields,
  Body extends z.ZodType = NoFields,
  Fields extends z.ZodObject = NoFields,
>(api: Api, definition: RouteDefinition<Query, Body, Fields, Answer, C>): void {
  checkDefinition(definition);
  addMethod(api, definition.path, definition.method);
  api.hono.openAPIRegistry.registerPath(createRoute(describeRoute(definition)));
  api.hono.on(definition.method.toUpperCase(), definition.path, (c) => serve(api, definition, c));
}

/** A websocket stream: no credential but its ticket, which the handler consumes after 426 and 400 are out of the way. */
export function streamRoute<Query extends z.ZodType>(
  api: Api,
  definition: {
    readonly path: `/${string}`;
    readonly summary: string;
    readonly description?: string;
    readonly query: Query;
    readonly problems?: readonly ProblemCode[];
    readonly handler: (
      call: Call<z.output<Query>, undefined, undefined, "public">,
    ) => Promise<Response>;
  },
): void {
  const documented = {
    ...definition,
    method: "get",
    tag: "Streams",
    credential: "public",
    stream: true,
    answer: z.undefined(),
  } as const;
  addMethod(api, definition.path, "get");
  api.hono.openAPIRegistry.registerPath(createRoute(describeRoute(documented)));
  api.hono.get(definition.path, async (c) => {
    const { exchange, settings, body } = await enter(c, definition.path);
    if (c.req.raw.headers.get("upgrade")?.toLowerCase() !== "websocket")
      throw problem("websocket_required", "Connect with a websocket upgrade.");
    read.checkContentType(c.req.raw, body);
    const faults: FieldFault[] = [];
    const query = read.validate(
      definition.query,
      read.queryFields(c.req.raw.url, faults),
      "query",
      faults,
    );
    refuseBody(body, faults);
    read.refuseIfAny(faults);
    exchange.acting = true;
    const call = callOf(api, c, { exchange, settings });
    return ownResponse(
      await definition.handler({
        ...call,
        actor: undefined,
        query: present(query),
        body: undefined,
        fields: undefined,
        idempotencyKey: undefined,
      }),
    );
  });
}

async function serve<
  Query extends z.ZodType,
  Body extends z.ZodType,
  Fields extends z.ZodObject,
  Answer extends z.ZodType,
  C extends Credential,
>(
  api: Api,
  definition: RouteDefinition<Query, Body, Fields, Answer, C>,
  c: EdgeContext,
): Promise<Response> {
  const { exchange, settings, body: bytes } = await enter(c, definition.path);
  const request = c.req.raw;
  const actor = await authenticate(api, definition, {
    request,
    body: bytes,
    env: c.env,
    settings,
    exchange,
  });
  read.checkContentType(request, bytes);
  const input = readInput(definition, request, bytes);
  exchange.acting = definition.method !== "get";
  const result = await definition.handler({
    ...callOf(api, c, { exchange, settings }),
    ...input,
    actor,
  });
  if (result instanceof Response) return ownResponse(result);
  const status = definition.status ?? 200;
  if (result instanceof Reply)
    return jsonResponse(result.body, result.status ?? status, result.headers);
  return jsonResponse(result, status);
}

/** What comes before any credential: 413, then 429 by address. 404 and 405 are the router's. */
async function enter(
  c: EdgeContext,
  path: string,
): Promise<{ exchange: Exchange; settings: Config; body: Uint8Array }> {
  const exchange = c.get("exchange");
  exchange.route = path;
  const settings = config(c.env);
  const body = await read.readBody(c.req.raw);
  await limitRate(c.env, settings, "address", networkOf(exchange.clientIp));
  return { exchange, settings, body };
}

async function authenticate<C extends Credential>(
  api: Api,
  definition: { credential: C; scope?: Scope; rateClass?: RateClass },
  incoming: Parameters<Authenticate>[0],
): Promise<ActorOf<C>> {
  const { credential, scope } = definition;
  if (credential === "public") return actorOf<C>(undefined);
  const actor = await api.authenticate(incoming, { credential, scope });
  await limitRate(
    incoming.env,
    incoming.settings,
    definition.rateClass ?? scope ?? "auth",
    rateKeyOf(actor),
  );
  return actorOf<C>(actor);
}

/** `Authenticate` has checked the kind of credential that the definition's type promises. */
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
    "method" | "query" | "body" | "fields" | "idempotent"
  >,
  request: Request,
  bytes: Uint8Array,
): Input<Query, Body, Fields> {
  const faults: FieldFault[] = [];
  const inQuery = read.queryFields(request.url, faults);
  const inBody =
    definition.method === "get"
      ? refuseBody(bytes, faults)
      : (read.bodyFields(bytes, faults) ?? undefined);
  const input = {
    query: undefined as unknown,
    body: undefined as unknown,
    fields: undefined as unknown,
    idempotencyKey: undefined as string | undefined,
  };
  if (definition.fields !== undefined) {
    const body = inBody ?? {};
    const merged = read.mergeFields(definition.fields, inQuery, body, faults);
    const place = (name: string) => read.placeOf(name, inQuery, body);
    if (inBody !== undefined)
      input.fields = read.validate(definition.fields, merged, place, faults);
  } else {
    input.query = read.validate(definition.query ?? NO_FIELDS, inQuery, "query", faults);
    if (definition.idempotent === true)
      input.idempotencyKey = takeIdempotencyKey(request, inBody, faults);
    if (inBody !== undefined)
      input.body = read.validate(definition.body ?? NO_FIELDS, inBody, "body", faults);
  }
  read.refuseIfAny(faults);
  return validated<Query, Body, Fields>(input);
}

const NO_FIELDS = z.strictObject({});

/** Each member was made by the schema of its type, or a fault was thrown. */
function validated<
  Query extends z.ZodType,
  Body extends z.ZodType,
  Fields extends z.ZodType,
>(input: {
  query: unknown;
  body: unknown;
  fields: unknown;
  idempotencyKey: string | undefined;
}): Input<Query, Body, Fields> {
  return input as Input<Query, Body, Fields>;
}

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("validated input is missing");
  return value;
}

function refuseBody(bytes: Uint8Array, faults: FieldFault[]): Record<string, unknown> {
  if (bytes.byteLength > 0) faults.push({ path: "body", message: "a GET takes no body" });
  return {};
}

/** From the header or the body, where it is signed too. It leaves the body, whose value alone is bound to the key. */
function takeIdempotencyKey(
  request: Request,
  body: Record<string, unknown> | undefined,
  faults: FieldFault[],
): string | undefined {
  const header = request.headers.get("idempotency-key");
  const field = body?.["idempotency_key"];
  if (body !== undefined) delete body["idempotency_key"];
  if (header !== null && !KEY.test(header))
    faults.push({ path: "header.idempotency-key", message: KEY_RULE });
  if (field !== undefined && (typeof field !== "string" || !KEY.test(field)))
    faults.push({ path: "body.idempotency_key", message: KEY_RULE });
  else if (field !== undefined && header !== null && field !== header)
    faults.push({
      path: "body.idempotency_key",
      message: "differs from the header Idempotency-Key",
    });
  return header ?? (typeof field === "string" ? field : undefined);
}

const KEY = /^[\x21-\x7e]{1,128}$/;
const KEY_RULE = "must be 1 to 128 visible ASCII characters";

function callOf(api: Api, c: EdgeContext, edge: { exchange: Exchange; settings: Config }) {
  return {
    api,
    env: c.env,
    db: c.env.DB,
    settings: edge.settings,
    request: c.req.raw,
    requestId: edge.exchange.requestId,
    clientIp: edge.exchange.clientIp,
    waitUntil: edge.exchange.later,
  };
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
  const faults: string[] = [];
  if (definition.fields !== undefined && definition.method !== "delete")
    faults.push("fields are for DELETE");
  if (
    definition.method === "delete" &&
    (definition.query !== undefined || definition.body !== undefined)
  )
    faults.push("a DELETE takes fields");
  if (definition.method === "get" && definition.body !== undefined)
    faults.push("a GET takes no body");
  for (const schema of [definition.query, definition.body, definition.fields]) {
    if (schema instanceof z.ZodObject && !(schema.def.catchall instanceof z.ZodNever))
      faults.push("use z.strictObject");
  }
  if (faults.length > 0)
    throw new Error(`${definition.method} ${definition.path}: ${faults.join(", ")}`);
}
