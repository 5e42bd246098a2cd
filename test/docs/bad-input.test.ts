/**
 * Sends invalid input to every operation of the OpenAPI description. The cases are generated from
 * the description, so that new fields are covered automatically. Each case must return a documented
 * 4xx that names the field, and must store nothing.
 */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { JsonSchema } from "../../scripts/openapi/examples.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import {
  bearer,
  type DescribedRoute,
  describedRoutes,
  type Sent,
  send,
  sendSigned,
} from "../support/http.ts";
import { newKey, newUser, type TestKey, type TestUser } from "../support/users.ts";

const operations = (await describedRoutes()).map((route) => ({ ...route, ...inputOf(route) }));
type Endpoint = (typeof operations)[number];
type Case = { what: string; target: string; sent: Sent; status: number; path?: string };

function inputOf({ operation: { parameters, requestBody } }: DescribedRoute) {
  const schema = requestBody?.content["application/json"]?.schema;
  const inQuery = (parameters ?? []).filter((parameter) => parameter.in === "query");
  return {
    query: inQuery.map(({ name }) => name),
    // A DELETE takes the same fields in the query and in the body.
    fields:
      requestBody === undefined
        ? Object.fromEntries(inQuery.map(({ name, schema: type }) => [name, type]))
        : (schema?.properties ?? {}),
  };
}

/**
 * Values of every other JSON type that a lenient parser would convert to the described type. An
 * amount may also be a JSON number, and a price text; each is described as one type.
 */
function wrongTypes({ $ref, type, anyOf = [], items, pattern, maximum }: JsonSchema): string[] {
  const right = new Set([type, ...anyOf.map((choice) => choice.type)].flat());
  if (pattern?.startsWith("^(0*[")) right.add("integer");
  const isPrice = $ref?.endsWith("/Price") === true || maximum === 1_000_000;
  if (isPrice) right.add("integer").add("string");
  const samples = {
    string: ['"5"', '"true"'],
    integer: ["5"],
    boolean: ["true"],
    null: ["null"],
    array: ["[]", '["read"]'],
  };
  const wrong = Object.entries(samples).flatMap(([name, texts]) => (right.has(name) ? [] : texts));
  return items === undefined ? wrong : [...wrong, ...wrongTypes(items).map((text) => `[${text}]`)];
}

/** An object without required properties. */
const allowsEmpty = ({ type, required }: JsonSchema): boolean =>
  [type].flat().includes("object") && required === undefined;

const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
const bytes = (...parts: (string | number[])[]) =>
  new Uint8Array(
    parts.flatMap((part) =>
      typeof part === "string" ? [...new TextEncoder().encode(part)] : part,
    ),
  );

/** Any text is a well-formed ticket, and any visible text a label or a category. */
const ANY_TEXT: ReadonlySet<string> = new Set(["ticket", "label", "q", "category"]);

function queryCases({ path, query }: Endpoint): Omit<Case, "sent">[] {
  const target = (text: string) => `${path}?${text}`;
  return [
    {
      what: "an unknown parameter",
      target: target("no_such_field=1"),
      status: 400,
      path: "query.no_such_field",
    },
    { what: "__proto__", target: target("__proto__=1"), status: 400, path: "query.__proto__" },
    {
      what: "constructor",
      target: target("constructor=1"),
      status: 400,
      path: "query.constructor",
    },
    ...query.flatMap((name) => [
      {
        what: `${name} twice`,
        target: target(`${name}=1&${name}=1`),
        status: 400,
        path: `query.${name}`,
      },
      {
        what: `${name} twice, once escaped`,
        target: target(`${name}=1&%${name.charCodeAt(0).toString(16)}${name.slice(1)}=2`),
        status: 400,
        path: `query.${name}`,
      },
      {
        what: `${name} with a NUL`,
        target: target(`${name}=%00`),
        status: 400,
        path: `query.${name}`,
      },
      {
        what: `${name} of 4000 digits`,
        target: target(`${name}=${"9".repeat(4_000)}`),
        status: 400,
        path: `query.${name}`,
      },
      ...(ANY_TEXT.has(name)
        ? []
        : [
            {
              what: `${name} of the wrong type`,
              target: target(`${name}=%5B%7B%7D%5D`),
              status: 400,
              path: `query.${name}`,
            },
            {
              what: `${name} that is not UTF-8`,
              target: target(`${name}=%ff%fe`),
              status: 400,
              path: `query.${name}`,
            },
          ]),
    ]),
  ];
}

function bodyCases({ path, method, fields }: Endpoint): Case[] {
  const post = (
    what: string,
    body: Sent["body"],
    status: number,
    at?: string,
    type?: string,
  ): Case => ({
    what,
    target: path,
    status,
    sent: {
      method,
      ...(body === undefined ? {} : { body }),
      ...(type === undefined ? {} : { headers: { "content-type": type } }),
    },
    ...(at === undefined ? {} : { path: at }),
  });
  if (method === "GET") return [];
  const field = (name: string, text: string) => `{${JSON.stringify(name)}:${text}}`;
  return [
    post("a truncated body", '{"amount":"1', 400, "body"),
    post("a body that is not UTF-8", bytes('{"amount":"', [0xc3, 0x28, 0xff], '"}'), 400, "body"),
    post("a body of 65 KiB", `{"amount":"${"0".repeat(65 * 1_024)}"}`, 413),
    post("a body in another type", "{}", 415, undefined, "text/plain"),
    post("a form", "amount=1", 415, undefined, "application/x-www-form-urlencoded"),
    post("deep nesting", field("amount", nested(1_000)), 400, "body"),
    post("the deepest nesting", field("amount", nested(30_000)), 400, "body"),
    post("an array", "[]", 400, "body"),
    post("null", "null", 400, "body"),
    post("__proto__", '{"__proto__":{"scopes":["withdraw"]}}', 400, "body.__proto__"),
    post("an escaped __proto__", '{"\\u005f_proto__":1}', 400, "body.__proto__"),
    post("constructor", '{"constructor":{"prototype":{}}}', 400, "body.constructor"),
    post("an unknown field", '{"no_such_field":1}', 400, "body.no_such_field"),
    post("a repeated field", '{"no_such_field":1,"no_such_field":1}', 400, "body.no_such_field"),
    ...Object.entries(fields).flatMap(([name, schema]) => [
      ...wrongTypes(schema).map((text) =>
        post(`${name} as ${text}`, field(name, text), 400, `body.${name}`),
      ),
      ...[...(allowsEmpty(schema) ? [] : ["{}"]), "1.5", "-1", "[{}]", '""'].map((text) =>
        post(`${name} as ${text}`, field(name, text), 400, `body.${name}`),
      ),
      post(
        `${name} as a number too large to expand`,
        field(name, "1e999999999"),
        400,
        `body.${name}`,
      ),
      post(`${name} as 10 000 digits`, field(name, "9".repeat(10_000)), 400, `body.${name}`),
      post(`${name} with an unpaired surrogate`, field(name, '"\\ud800"'), 400, "body"),
      post(`${name} with __proto__ inside`, field(name, '{"__proto__":1}'), 400, `body.${name}`),
    ]),
  ];
}

describe.each(
  operations.map((endpoint) => [`${endpoint.method} ${endpoint.path}`, endpoint] as const),
)("%s", (_name, endpoint) => {
  it("rejects invalid input by field and stores nothing", async () => {
    const caller = await newUser();
    const key = await newKey(caller, ["read", "trade", "withdraw"]);
    const before = await storedOf(caller);
    const method = endpoint.method;
    const cases: Case[] = [
      ...queryCases(endpoint).map((bad) => ({ ...bad, sent: { method } })),
      ...bodyCases(endpoint),
    ];
    const wrong: string[] = [];
    for (const bad of cases) {
      const response = await call(endpoint, { caller, key }, bad);
      const problem = await response.json<{
        status: number;
        code: string;
        request_id: string;
        errors?: { path: string }[];
      }>();
      const named = problem.errors?.map(({ path }) => path) ?? [];
      if (response.status !== bad.status || problem.status !== bad.status)
        wrong.push(`${bad.what}: ${response.status} ${problem.code}, not ${bad.status}`);
      else if (!(String(bad.status) in endpoint.operation.responses))
        wrong.push(`${bad.what}: ${bad.status} is not described`);
      else if (
        bad.path !== undefined &&
        !named.some((path) => path === bad.path || path.startsWith(`${bad.path}.`))
      )
        wrong.push(`${bad.what}: names ${named.join(", ")}`);
      else if (problem.request_id !== response.headers.get("x-request-id"))
        wrong.push(`${bad.what}: request_id differs from the header`);
    }
    expect(wrong).toEqual([]);
    expect(await storedOf(caller)).toEqual(before);
  });
});

async function call(
  { stream, credential }: Endpoint,
  { caller, key }: { caller: TestUser; key: TestKey },
  { target, sent }: Case,
): Promise<Response> {
  if (stream) return send(target, { ...sent, headers: { upgrade: "websocket", ...sent.headers } });
  if (credential === "public") return send(target, sent);
  if (credential === "api_key") return sendSigned(key, target, sent);
  return send(target, { ...sent, headers: { ...bearer(caller.token), ...sent.headers } });
}

/** The number of the caller's rows in every table. */
async function storedOf({ userId, email }: TestUser): Promise<unknown> {
  const id = uuid(userId);
  const [counts] = await all(
    env.DB,
    sql`SELECT (SELECT count(*) FROM users WHERE email = ${email}) AS users,
      (SELECT count(*) FROM api_keys WHERE user_id = ${id}) AS keys,
      (SELECT count(*) FROM ws_tickets WHERE user_id = ${id}) AS tickets,
      (SELECT count(*) FROM requests WHERE requester_id = ${id}) AS requests,
      (SELECT count(*) FROM quotes WHERE maker_id = ${id}) AS quotes,
      (SELECT count(*) FROM withdrawals WHERE user_id = ${id}) AS withdrawals,
      (SELECT count(*) FROM deposit_addresses WHERE user_id = ${id}) AS addresses,
      (SELECT count(*) FROM audit_events WHERE user_id = ${id}) AS audit,
      (SELECT count(key_hash) FROM requests WHERE requester_id = ${id}) AS idempotency`,
  );
  return counts;
}
