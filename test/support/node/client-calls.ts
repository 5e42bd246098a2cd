/**
 * The routes of docs/openapi.json and the client methods that call them. Both are discovered, so
 * the client's tests cover a new route or method automatically.
 */
import { readFileSync } from "node:fs";
import type { Schema } from "@cfworker/json-schema";
import {
  Client,
  type Credential,
  Live,
  LiveRequests,
  Pages,
  Stream,
  type WebSocketLike,
} from "../../../packages/client/src/index.ts";

/** One operation of the OpenAPI description. */
export type Route = {
  /** `POST /rfq/accept`. */
  name: string;
  /** Whether the description says that it may be repeated after a lost response. */
  repeatable: boolean;
  /** Names of its query parameters and of its body's fields, with their schemas. */
  fields: Record<string, Schema>;
  /** The schema and the example of its successful JSON response; null for other responses. */
  response: { schema: Schema; example: unknown } | null;
};

type Content = Record<string, { schema: Schema; example?: unknown }>;
type Operation = {
  "x-repeatable"?: boolean;
  parameters?: { name: string; in: string; schema: Schema }[];
  requestBody?: { content: Content };
  responses: Record<string, { content?: Content }>;
};
export type Description = {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
};

export function readDescription(): Description {
  return JSON.parse(readFileSync("docs/openapi.json", "utf8")) as Description;
}

/** The descriptions and the page that shows them to people. */
const WITHOUT_METHOD = new Set([
  "GET /openapi.json",
  "GET /asyncapi.json",
  "GET /docs",
  "GET /llms.txt",
  "GET /.well-known/security.txt",
]);

/** Every route that the client needs a method for. */
export function routesOf(description: Description): Route[] {
  return Object.entries(description.paths)
    .flatMap(([path, operations]) =>
      Object.entries(operations).map(([method, operation]) => ({
        name: `${method.toUpperCase()} ${path}`,
        repeatable: method === "get" || operation["x-repeatable"] === true,
        fields: fieldsOf(operation, description.components.schemas),
        response: responseOf(operation),
      })),
    )
    .filter(({ name }) => !WITHOUT_METHOD.has(name));
}

/** The schema itself, of a reference to a named one. */
function resolved(schema: Schema, schemas: Record<string, Schema>): Schema {
  const name = schema.$ref?.split("/").at(-1);
  const { $ref: _, ...rules } = schema;
  return name === undefined ? schema : { ...schemas[name], ...rules };
}

function fieldsOf(
  { parameters = [], requestBody }: Operation,
  schemas: Record<string, Schema>,
): Record<string, Schema> {
  const inQuery = parameters.filter((parameter) => parameter.in === "query");
  const whole = requestBody?.content["application/json"]?.schema ?? {};
  const { properties, oneOf = [] } = resolved(whole, schemas);
  const variants = (oneOf as Schema[]).map((variant) => resolved(variant, schemas).properties);
  const body = Object.assign({}, properties, ...variants);
  return {
    ...Object.fromEntries(inQuery.map(({ name, schema }) => [name, resolved(schema, schemas)])),
    ...Object.fromEntries(
      Object.entries(body as Record<string, Schema>).map(([name, schema]) => [
        name,
        resolved(schema, schemas),
      ]),
    ),
  };
}

function responseOf({ responses }: Operation): Route["response"] {
  const success = Object.entries(responses).find(([status]) => status.startsWith("2"));
  const json = success?.[1].content?.["application/json"];
  return json === undefined ? null : { schema: json.schema, example: json.example };
}

/** A method (`rfq.accept`, `time`), a route that it calls, and the fields that it sends there. */
export type ObservedCall = { method: string; route: string; fields: string[]; stream: boolean };

/**
 * Calls every method with a record of every field of every route, with a session and with an API
 * key. Calls it again without the fields that it sent, because some methods need one of several.
 */
export async function observeCalls(routes: readonly Route[]): Promise<ObservedCall[]> {
  const calls = new Map<string, ObservedCall>();
  const record = Object.fromEntries(
    routes.flatMap(({ fields }) => Object.entries(fields)).map(([name, it]) => [name, sample(it)]),
  );
  for (const credential of [{ accessToken: "token" }, { apiKeyId: "key", secret: "secret" }]) {
    for (const method of methodNamesOf()) {
      // Of its own, because what a closed stream still sends is no call of the next method.
      const service = new RecordingService(routes);
      const { fetch, webSocket } = service;
      const client = new Client({ baseUrl: "https://rfq.test", credential, fetch, webSocket });
      const call = new Map(methodsOf(client)).get(method);
      if (call === undefined) throw new Error(`The client has no method ${method}.`);
      const stream = await use(call(record), service);
      // A match has three ids, of which a call sends one.
      for (let again = 0; again < 2; again++) {
        const sent = new Set(service.sent.flatMap(({ fields }) => fields));
        const others = Object.entries(record).filter(([name]) => !sent.has(name));
        await use(call(Object.fromEntries(others)), service);
      }
      for (const { route, fields } of service.sent.splice(0)) {
        // A quote reads the service's clock first, for its deadline.
        if (route === "GET /time" && method !== "time") continue;
        const known = calls.get(`${method} ${route}`)?.fields ?? [];
        const all = [...new Set([...known, ...fields])];
        calls.set(`${method} ${route}`, { method, route, fields: all, stream });
      }
    }
  }
  return [...calls.values()];
}

/** The routes to which a method sends its call again after a lost response. */
export async function repeatedRoutes(routes: readonly Route[]): Promise<Set<string>> {
  const record = Object.fromEntries(
    routes.flatMap(({ fields }) => Object.entries(fields)).map(([name, it]) => [name, sample(it)]),
  );
  const credentials = [{ accessToken: "token" }, { apiKeyId: "key", secret: "secret" }];
  const repeatedBy = async (credential: Credential, method: string): Promise<string[]> => {
    const sent: string[] = [];
    const lost: typeof fetch = async (input, init) => {
      const request = new Request(input, init);
      sent.push(`${request.method} ${new URL(request.url).pathname}`);
      throw new TypeError("the connection was lost");
    };
    const client = new Client({
      baseUrl: "https://rfq.test",
      credential,
      fetch: lost,
      attempts: 2,
    });
    const call = new Map(methodsOf(client)).get(method);
    const result = attempt(() => call?.({ ...record, not_after: "2030-01-01T00:00:00Z" }));
    if (result instanceof Stream || result instanceof Live || result instanceof Client) return [];
    await Promise.resolve(result instanceof Pages ? result.page() : result).catch(() => {});
    return sent.filter((name, index) => sent.indexOf(name) < index);
  };
  const names = methodNamesOf();
  const calls = credentials.flatMap((credential) =>
    names.map((name) => repeatedBy(credential, name)),
  );
  return new Set((await Promise.all(calls)).flat());
}

/** The methods that send something although their signal was aborted before. */
export async function callsWithoutSignal(routes: readonly Route[]): Promise<string[]> {
  const service = new RecordingService(routes);
  const { fetch, webSocket } = service;
  const credential = { accessToken: "token" };
  const client = new Client({ baseUrl: "https://rfq.test", credential, fetch, webSocket });
  const options = { signal: AbortSignal.abort(new Error("stopped")) };
  const record = Object.fromEntries(
    routes.flatMap(({ fields }) => Object.entries(fields)).map(([name, it]) => [name, sample(it)]),
  );
  const ignoring: string[] = [];
  for (const [method, call] of methodsOf(client)) {
    // Options are the second argument, or the only one.
    const result = attempt(() => call({ ...record, ...options }, options));
    if (result instanceof Stream || result instanceof Live || result instanceof Client) continue;
    await Promise.resolve(result instanceof Pages ? result.page() : result).catch(() => {});
    if (service.sent.splice(0).length > 0) ignoring.push(method);
  }
  return ignoring;
}

function attempt(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    return Promise.reject(error);
  }
}

/** A value of the type of a field. */
function sample({ type, enum: values, pattern }: Schema): unknown {
  if (values !== undefined) return values[0];
  const types: readonly unknown[] = Array.isArray(type) ? type : [type];
  if (types.includes("integer")) return 1;
  if (types.includes("boolean")) return true;
  if (types.includes("array")) return [];
  return pattern?.startsWith("^0x") === true ? "0xab" : "text";
}

type Method = (record: object, options?: object) => unknown;

/** The methods of the client and of its parts (`client.rfq`), by name. */
const methodNamesOf = () =>
  methodsOf(new Client({ baseUrl: "https://rfq.test" })).map(([name]) => name);

function methodsOf(client: Client): [name: string, method: Method][] {
  const parts = Object.entries(client).map(([name, part]) => [`${name}.`, part as object] as const);
  return [["", client] as const, ...parts].flatMap(([prefix, part]) =>
    methodNames(part)
      .filter((name) => name !== "constructor")
      .map((name): [string, Method] => [
        prefix + name,
        (record, options) => (Reflect.get(part, name) as Method).call(part, record, options),
      ]),
  );
}

/** Also those that the class of `part` inherits. */
function methodNames(part: object): string[] {
  const prototype = Object.getPrototypeOf(part) as object;
  if (prototype === Object.prototype) return [];
  return [...Object.getOwnPropertyNames(prototype), ...methodNames(prototype)];
}

/** Reads a list, opens a stream or awaits a result. Returns whether it was a stream. */
async function use(result: unknown, service: RecordingService): Promise<boolean> {
  if (result instanceof Pages) await result.page();
  else if (result instanceof Stream || result instanceof Live) {
    const sockets = result instanceof LiveRequests ? 2 : 1;
    const connected = service.nextSockets(sockets);
    result.ready().catch(() => {});
    await connected;
    result.close();
  } else await result;
  return result instanceof Stream || result instanceof Live;
}

/** Records calls and sockets, and responds to a call with the example of its route. */
class RecordingService {
  readonly sent: { route: string; fields: string[] }[] = [];
  readonly #routes: readonly Route[];
  #onSocket: () => void = () => {};

  constructor(routes: readonly Route[]) {
    this.#routes = routes;
  }

  nextSockets(count: number): Promise<void> {
    return new Promise((resolve) => {
      this.#onSocket = () => {
        count -= 1;
        if (count === 0) resolve();
      };
    });
  }

  readonly fetch: typeof fetch = async (input, init) => {
    const request = new Request(input, init);
    const { pathname, searchParams } = new URL(request.url);
    const text = await request.text();
    const body: object = text === "" ? {} : JSON.parse(text);
    const name = `${request.method} ${pathname}`;
    this.sent.push({ route: name, fields: [...searchParams.keys(), ...Object.keys(body)] });
    if (request.headers.get("accept") === "text/csv") return new Response("# end,0\r\n");
    if (request.headers.get("accept") === "application/x-ndjson")
      return new Response('{"next_cursor":null}\n');
    const route = this.#routes.find((it) => it.name === name);
    // The client compares the terms of a withdrawal with those that it sent.
    const example = (route?.response?.example ?? {}) as object;
    if (name !== "POST /custody/withdraw") return Response.json(example);
    const usdc = { venue_id: null, asset_id: null };
    const unnamed = { client_withdrawal_id: null, to_address: null, amount: null };
    return Response.json({ ...example, ...usdc, ...unnamed, ...body });
  };

  get webSocket(): new (url: string) => WebSocketLike {
    const connected = (url: string) => {
      const { pathname, searchParams } = new URL(url);
      this.sent.push({ route: `GET ${pathname}`, fields: [...searchParams.keys()] });
      this.#onSocket();
    };
    return class implements WebSocketLike {
      constructor(url: string) {
        connected(url);
      }
      send() {}
      close() {}
      addEventListener() {}
    };
  }
}
