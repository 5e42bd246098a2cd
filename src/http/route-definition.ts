/**
 * One call declares a route: its contract (which becomes /openapi.json), who may call it, and a handler of a few lines.
 *
 *   export function registerQuoteRoutes(app: Api): void {
 *     route(app, {
 *       method: "post", path: "/rfq/quote", tag: "RFQ", summary: "Offer a price on an open request",
 *       credential: "any", scope: "trade", idempotent: true,
 *       body: z.strictObject({ request_id: uuidField, price, expires_in_secs: integer(1, 300).optional() }),
 *       response: Quote, status: 201,
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
 * - Pages: `query: z.strictObject({ …, ...timeIdPage })`, `response: pageSchema(Item)`, and `pageOf` (cursor.ts).
 * - `response`: zod schema of the 2xx body; the handler returns that body, or `reply(body, headers, status)` for other
 *   header fields or another success status, or a raw `Response` (CSV, 101), which also gets x-request-id.
 * - `idempotent`: accepts Idempotency-Key or a body field `idempotency_key`; the handler gets `idempotencyKey`, and a
 *   `body` without it. Replays answer with the header `idempotency-replayed: true`.
 * - `problems`: the codes this route can answer beyond those that every such route has.
 * - Throw `problem(code, detail, extensions)`; the order of errors before the handler is contract.md's.
 */
import type { OpenAPIHono, z } from "@hono/zod-openapi";
import type { Actor, ActorOf, Credential, Scope } from "../platform/actor.ts";
import type { Config } from "../platform/config.ts";
import type { ProblemCode } from "../platform/problem.ts";
import type { RateClass } from "./rate-limit.ts";
import type { EdgeEnv, RequestContext } from "./request-context.ts";

/** Proves who calls and that they may: throws the 401 or 403 of the contract's order. Injected by app.ts from auth/. */
export type Authenticate = (
  incoming: {
    request: Request;
    body: Uint8Array;
    env: Cloudflare.Env;
    settings: Config;
    context: RequestContext;
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
  /** Work that goes on after the answer; its errors are swallowed by the runtime, so it must be repeatable elsewhere. */
  readonly waitUntil: (work: Promise<unknown>) => void;
};

export type NoFields = z.ZodObject<Record<never, never>>;

export type RouteDefinition<
  Query extends z.ZodType,
  Body extends z.ZodType,
  Fields extends z.ZodObject,
  ResponseSchema extends z.ZodType,
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
  readonly response: ResponseSchema;
  /** Success status; 200 unless given. */
  readonly status?: 200 | 201 | 202;
  readonly responseDescription?: string;
  /** Response fields beyond the common ones, by name with a description. */
  readonly responseHeaders?: Readonly<Record<string, string>>;
  /** Media types of other success answers, e.g. `text/csv`. */
  readonly otherMediaTypes?: readonly string[];
  /** Of the success answer; `application/json` unless given, and then the handler answers a `Response`. */
  readonly mediaType?: string;
  readonly idempotent?: boolean;
  readonly problems?: readonly ProblemCode[];
  /** By scope unless given: `read`, `trade`, `withdraw`, and `auth` without a scope. */
  readonly rateClass?: RateClass;
  readonly handler: (
    call: Call<z.output<Query>, z.output<Body>, z.output<Fields>, C>,
  ) =>
    | Promise<z.input<ResponseSchema> | Reply<z.input<ResponseSchema>> | Response>
    | z.input<ResponseSchema>
    | Response;
};

export type StreamDefinition<Query extends z.ZodType> = {
  readonly path: `/${string}`;
  readonly summary: string;
  readonly description?: string;
  readonly query: Query;
  readonly problems?: readonly ProblemCode[];
  readonly handler: (
    call: Call<z.output<Query>, undefined, undefined, "public">,
  ) => Promise<Response>;
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
