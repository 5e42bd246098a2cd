/**
 * The definition of a route: its contract (published in /openapi.json), its credential, and a
 * handler of a few lines.
 *
 * - `credential`: `public` (credentials are ignored), `any`, `session` or `api_key`. It determines
 *   the type of `actor`.
 * - `scope`: the scope that the credential must have. Omit it if any valid credential may call.
 * - `query`, `body`: a `z.strictObject` of the fields in http/fields.ts, assets/asset-fields.ts.
 *   Express a rule over several fields with `.refine(…, { path: ["name"], message })`. Handlers
 *   receive parsed values: bigint, Unix milliseconds, canonical ids.
 * - `fields`: replaces `query` and `body` for DELETE. Each field may be in the query, in a JSON
 *   body, or in both if the values are equal.
 * - Pages: use `query: z.strictObject({ …, ...timeIdPage })`, `response: pageSchema(Item)` and
 *   `pageOf` (cursor.ts).
 * - `response`: the schema of the success body. The handler returns the body, `reply(body, headers,
 *   status)` for other headers or another success status, or a `Response` (CSV, 101).
 * - `idempotent`: accepts the header Idempotency-Key or the body field `idempotency_key`. The
 *   handler receives it as `idempotencyKey`; `body` does not contain it. The response to a replay
 *   has the header `idempotency-replayed: true`.
 * - `problems`: the codes that this route can return beyond those of every route of its kind.
 * - Handlers throw `problem(code, detail, extensions)`. The order of errors before the handler is
 *   that of contract.md section 2.
 */
import type { Hono } from "hono";
import type * as z from "zod";
import type { Actor, ActorOf, Credential, Scope } from "../platform/actor.ts";
import type { Group } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import type { ProblemCode } from "../platform/problem.ts";
import type { Sql } from "../platform/sql.ts";
import type { RateClass } from "./rate-limit.ts";
import type { EdgeEnv, RequestContext } from "./request-context.ts";

/** Verifies the credential and the scope, or throws 401 or 403. app.ts injects it from auth/. */
export type Authenticate = (
  incoming: {
    request: Request;
    body: Uint8Array;
    env: Cloudflare.Env;
    settings: Config;
    context: RequestContext;
    rightsChanged: RightsChanged;
  },
  needs: {
    credential: Exclude<Credential, "public">;
    scope: Scope | undefined;
    keyScopes: readonly Scope[] | undefined;
  },
) => Promise<Actor>;

/** Ends what is open of a user in the commit of `change`. app.ts injects it from rfq/. */
type Ending<Result> = (
  env: Cloudflare.Env,
  userId: string,
  change: (alongside: (group: Group, applied: Sql) => readonly Sql[]) => Promise<Result>,
) => Promise<Result>;

/** Tells a user's sockets of new notices and of ended credentials. Never throws. From streams/. */
type RightsChanged = (
  env: Cloudflare.Env,
  userId: string,
  credentials: "ended" | "kept",
) => Promise<void>;

export type Api = {
  readonly hono: Hono<EdgeEnv>;
  /** What the OpenAPI description is made of when it is first read. */
  readonly documented: Documented[];
  readonly authenticate: Authenticate;
  /** Freezes an account with all that belongs to it. False if the freeze changed nothing. */
  readonly freezeAccount: Ending<boolean>;
  /** Ends the open quotes of revoked keys, and of sessions that may not trade, with the change. */
  readonly narrowingRights: <Result>(...ending: Parameters<Ending<Result>>) => Promise<Result>;
  /** As `narrowingRights`, for a change that ends all sessions. */
  readonly endingSessions: <Result>(...ending: Parameters<Ending<Result>>) => Promise<Result>;
  readonly rightsChanged: RightsChanged;
  /** Methods by path, for 405 and CORS preflight requests. */
  readonly methods: Map<string, Set<string>>;
};

type Call<Query, Body, Fields, C extends Credential> = {
  readonly env: Cloudflare.Env;
  readonly db: D1Database;
  readonly settings: Config;
  readonly request: Request;
  readonly requestId: string;
  readonly clientIp: string | undefined;
  /** When the request arrived, in Unix milliseconds by the clock of the Worker. */
  readonly receivedAt: number;
  readonly actor: ActorOf<C>;
  readonly query: Query;
  readonly body: Body;
  readonly fields: Fields;
  readonly idempotencyKey: string | undefined;
  readonly api: Api;
  /** Continues after the response. Its errors are lost, so cron or a later call must repeat it. */
  readonly waitUntil: (work: Promise<unknown>) => void;
};

export type NoFields = z.ZodObject<Record<string, never>>;

export type RouteDefinition<
  Query extends z.ZodType,
  Body extends z.ZodType,
  Fields extends z.ZodObject,
  ResponseSchema extends z.ZodType,
  C extends Credential,
> = {
  readonly method: "get" | "post" | "delete";
  readonly path: `/${string}`;
  /** The name of the operation in generated clients: a verb and a noun. Do not change it. */
  readonly operationId: string;
  readonly tag: string;
  readonly summary: string;
  /** What the summary does not say. Generated clients show both. */
  readonly description: string;
  readonly credential: C;
  readonly scope?: Scope;
  /** The scopes of which an API key must have one, where they are not `scope`. */
  readonly keyScopes?: readonly Scope[];
  readonly query?: Query;
  readonly body?: Body;
  readonly fields?: Fields;
  readonly response: ResponseSchema;
  /** The success status. Default: 200. */
  readonly status?: 200 | 201 | 202;
  readonly responseDescription?: string;
  /** Descriptions of response headers beyond the common ones, by name. */
  readonly responseHeaders?: Readonly<Record<string, string>>;
  /** Media types of other success responses, e.g. `text/csv`. */
  readonly otherMediaTypes?: readonly string[];
  /** Default: `application/json`. For any other media type, the handler returns a `Response`. */
  readonly mediaType?: string;
  readonly idempotent?: boolean;
  /** Repeating the write after a lost response has no further effect (`x-repeatable`). */
  readonly repeatable?: true;
  readonly problems?: readonly ProblemCode[];
  /** Whether the handler may change the caller's rights. Their open sockets are notified after it. */
  readonly notices?: true;
  /** Whether it may end credentials of the caller, whose sockets are closed after it. */
  readonly endsCredentials?: true;
  /** The route takes only upgrades to a websocket. */
  readonly stream?: true;
  /** The class of the rate limit. Default: the scope, or `auth` for a route without a scope. */
  readonly rateClass?: RateClass;
  readonly handler: (
    call: Call<z.output<Query>, z.output<Body>, z.output<Fields>, C>,
  ) =>
    | Promise<z.input<ResponseSchema> | Reply<z.input<ResponseSchema>> | Response>
    | z.input<ResponseSchema>
    | Response;
};

export type StreamDefinition<Query extends z.ZodType> = Omit<
  RouteDefinition<Query, NoFields, NoFields, z.ZodUndefined, "public">,
  "method" | "tag" | "credential" | "stream" | "response"
>;

/** What the description has of a route or of a stream. */
export type Documented = Omit<
  RouteDefinition<z.ZodType, z.ZodType, z.ZodObject, z.ZodType, Credential>,
  "handler"
>;

/** A success response with headers or a status of its own. */
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
