/** Requests to the app with a session, signed by a key, or raw. Each has its own client address. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { createHmac } from "node:crypto";
import { createApp } from "../../src/app.ts";
import type { JsonSchema } from "../../scripts/openapi/examples.ts";
import { config, type Config } from "../../src/platform/config.ts";
import type { Api as App } from "../../src/http/route-definition.ts";
import type { TestKey, TestUser } from "./users.ts";

export const BASE = "http://edge.test";
export const app = createApp();

export type Sent = {
  method?: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array<ArrayBuffer>;
  /** Bindings and settings that replace those of the tests. */
  env?: Partial<Record<string, unknown>>;
  /** An app other than the service's. */
  app?: Pick<App, "hono">;
};

/** Sends a request as it is. `target` is the raw request target. */
export async function send(target: string, sent: Sent = {}): Promise<Response> {
  const context = createExecutionContext();
  const method = sent.method ?? "GET";
  const headers: Record<string, string> = { "cf-connecting-ip": anyIp(), ...sent.headers };
  if (sent.body !== undefined && headers["content-type"] === undefined)
    headers["content-type"] = "application/json";
  const request = new Request(`${BASE}${target}`, {
    method,
    headers,
    ...(sent.body === undefined ? {} : { body: sent.body }),
  });
  const response = await (sent.app ?? app).hono.fetch(
    request,
    sent.env === undefined ? env : { ...env, ...sent.env },
    context,
  );
  await waitOnExecutionContext(context);
  return response;
}

export function bearer(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` };
}

export type Signer = Pick<TestKey, "apiKeyId" | "secret">;

/** Signs independently of the service and the client, with node:crypto and string joining only. */
export function sign(
  key: Signer,
  request: {
    method: string;
    target: string;
    body?: string | Uint8Array;
    timestamp?: number | string;
  },
): Record<string, string> {
  const timestamp = String(request.timestamp ?? Date.now());
  const signature = createHmac("sha256", key.secret)
    .update(`${timestamp}\n${request.method}\n${request.target}\n`)
    .update(request.body ?? "")
    .digest("base64");
  return { apikey: key.apiKeyId, "x-hmac-timestamp": timestamp, "x-hmac-signature": signature };
}

export async function sendSigned(
  key: Signer,
  target: string,
  sent: Sent & { timestamp?: number | string } = {},
): Promise<Response> {
  const { timestamp, ...rest } = sent;
  const signed = sign(key, {
    method: sent.method ?? "GET",
    target,
    ...(sent.body === undefined ? {} : { body: sent.body }),
    ...(timestamp === undefined ? {} : { timestamp }),
  });
  const headers = { "cf-connecting-ip": anyIpOf(key), ...signed, ...sent.headers };
  return send(target, { ...rest, headers });
}

type TestResponse = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The decoded body, or an empty object if it is not JSON. */
  readonly json: Record<string, any>;
};
export type Api = {
  get(target: string, headers?: Record<string, string>): Promise<TestResponse>;
  post(target: string, body?: unknown, headers?: Record<string, string>): Promise<TestResponse>;
  delete(target: string, body?: unknown): Promise<TestResponse>;
  /** Every item of a paged list. `target` has a query. */
  list(target: string): Promise<Record<string, any>[]>;
};

/**
 * Calls routes with a user's session or a key. A body is sent as JSON, a string as it is. `changes`
 * are settings that replace those of the tests.
 */
export function apiOf(
  caller: Pick<TestUser, "token"> | Signer,
  changes: Record<string, string> = {},
): Api {
  const call = async (target: string, sent: Sent): Promise<TestResponse> => {
    const changed = { ...sent, env: changes };
    const response =
      "token" in caller
        ? await send(target, { ...changed, headers: { ...bearer(caller.token), ...sent.headers } })
        : await sendSigned(caller, target, changed);
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.includes("json") === true;
    const { status, headers } = response;
    return { status, headers, text, json: isJson ? JSON.parse(text) : {} };
  };
  const withBody = (body: unknown) =>
    body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) };
  const list = async (target: string): Promise<Record<string, any>[]> => {
    const { json } = await call(target, {});
    const cursor: string | null = json["next_cursor"];
    const next = `${target.replace(/&last_cursor=.*/, "")}&last_cursor=${cursor}`;
    return [...json["items"], ...(cursor === null ? [] : await list(next))];
  };
  return {
    list,
    get: (target, headers = {}) => call(target, { headers }),
    post: (target, body, headers = {}) =>
      call(target, { method: "POST", headers, ...withBody(body) }),
    delete: (target, body) => call(target, { method: "DELETE", ...withBody(body) }),
  };
}

/** The settings of the tests with changes. */
export function settings(change: Partial<Config> = {}): Config {
  return { ...config(env), ...change };
}

export function anyIp(): string {
  const [a = 0, b = 0, c = 0] = crypto.getRandomValues(new Uint8Array(3));
  return `10.${a}.${b}.${c}`;
}

export async function problemOf(response: Response): Promise<Record<string, unknown>> {
  return { ...(await response.json<Record<string, unknown>>()) };
}

/** In the key's own /24, because a key's use from a new network is an event. */
export function anyIpOf({ apiKeyId }: Signer): string {
  const [b, c] = [apiKeyId.slice(0, 2), apiKeyId.slice(2, 4)].map((hex) =>
    Number.parseInt(hex, 16),
  );
  return `10.${b}.${c}.${anyIp().split(".")[3]}`;
}

/** Status and code of a problem, such as `403 scope_missing`. */
export async function codeOf(response: Response | TestResponse): Promise<string> {
  const problem = response instanceof Response ? await problemOf(response) : response.json;
  return `${response.status} ${String(problem["code"])}`;
}

type DescribedOperation = {
  readonly operationId: string;
  "x-credential": "public" | "any" | "session" | "api_key";
  "x-scope"?: "read" | "trade" | "withdraw";
  "x-key-scopes"?: ("read" | "trade" | "withdraw")[];
  "x-stream"?: boolean;
  parameters?: { name: string; in: string; schema: JsonSchema }[];
  requestBody?: { content: { "application/json"?: { schema: JsonSchema } } };
  responses: Record<string, { description: string }>;
};

/** A route of the OpenAPI description. */
export type DescribedRoute = {
  readonly method: string;
  readonly path: string;
  readonly credential: DescribedOperation["x-credential"];
  readonly scope: DescribedOperation["x-scope"];
  readonly keyScopes: DescribedOperation["x-key-scopes"];
  readonly stream: boolean;
  readonly operation: DescribedOperation;
};

/** Every route of the OpenAPI description, so that tables over them cover new routes. */
export async function describedRoutes(): Promise<DescribedRoute[]> {
  const { paths, components } = await (
    await send("/openapi.json")
  ).json<{
    paths: Record<string, Record<string, DescribedOperation>>;
    components: { schemas: Record<string, JsonSchema> };
  }>();
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => {
      const body = operation.requestBody?.content["application/json"];
      if (body !== undefined) body.schema = withObjects(body.schema, components.schemas);
      return {
        method: method.toUpperCase(),
        path,
        credential: operation["x-credential"],
        scope: operation["x-scope"],
        keyScopes: operation["x-key-scopes"],
        stream: operation["x-stream"] === true,
        operation,
      };
    }),
  );
}

/** The schema with its objects in place of references to them. */
function withObjects(schema: JsonSchema, schemas: Record<string, JsonSchema>): JsonSchema {
  const choice = schema.anyOf?.find(({ $ref }) => $ref !== undefined);
  const object = schemas[(schema.$ref ?? choice?.$ref)?.split("/").at(-1) ?? ""];
  const parts = object?.oneOf?.map((variant) => withObjects(variant, schemas)) ?? [object];
  const fields = Object.assign({}, ...parts.map((part) => part?.properties));
  if (object?.oneOf !== undefined || object?.properties !== undefined) {
    const type = choice === undefined ? "object" : ["object", "null"];
    const properties = Object.entries<JsonSchema>(fields).map(
      ([name, each]) => [name, withObjects(each, schemas)] as const,
    );
    return { ...object, type, properties: Object.fromEntries(properties) };
  }
  const { items } = schema;
  return items === undefined ? schema : { ...schema, items: withObjects(items, schemas) };
}
