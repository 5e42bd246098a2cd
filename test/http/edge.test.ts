import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import * as z from "zod";
import { createApp } from "../../src/app.ts";
import { newKeyId } from "../../src/auth/mark.ts";
import { config } from "../../src/platform/config.ts";
import { OutcomeUnknown } from "../../src/platform/commit.ts";
import { sql } from "../../src/platform/sql.ts";
import { describeApi } from "../../scripts/openapi/describe.ts";
import { route, streamRoute } from "../../src/http/define-route.ts";
import { integer, uuidField } from "../../src/http/fields.ts";
import {
  anyIp,
  apiOf,
  app as fullApp,
  BASE,
  bearer,
  codeOf,
  problemOf,
  type Sent,
  send,
  sendSigned,
  settings,
  sign,
} from "../support/http.ts";
import { writeNotices } from "../support/events.ts";
import { edit } from "../support/ledger.ts";
import { newKey, newUser } from "../support/users.ts";
import { reply } from "../../src/http/route-definition.ts";
import wranglerText from "../../wrangler.toml?raw";

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

it("returns 404 for unknown paths and 405 with Allow for other methods", async () => {
  expect(await codeOf(await send("/nope"))).toBe("404 route_unknown");
  expect(await codeOf(await send("/time/"))).toBe("404 route_unknown");
  const wrongMethod = await send("/auth/login");
  expect(wrongMethod.headers.get("allow")).toBe("POST");
  expect(await codeOf(wrongMethod)).toBe("405 method_not_allowed");
  const several = await send("/auth/api-keys", { method: "PUT", body: "{}" });
  expect(several.headers.get("allow")).toBe("DELETE, GET, HEAD, POST");
});

it("serves security.txt if the setting contains it, else 404", async () => {
  const path = "/.well-known/security.txt";
  expect(await codeOf(await send(path))).toBe("404 route_unknown");
  const text = "Contact: mailto:security@example.com\nExpires: 2027-11-22T00:00:00.000Z\n";
  const response = await send(path, { env: { SECURITY_TXT: text } });
  expect(response.headers.get("content-type")).toBe("text/plain; charset=utf-8");
  expect(await response.text()).toBe(text);
});

it("sets its own request id and the security headers on every response", async () => {
  const mine = crypto.randomUUID();
  for (const response of [
    await send("/time", { headers: { "x-request-id": mine } }),
    await send("/nope"),
    await send("/time", { method: "POST" }),
    await send("/health"),
  ]) {
    expect(response.headers.get("x-request-id")).toMatch(UUID_V4);
    expect(response.headers.get("x-request-id")).not.toBe(mine);
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    expect(response.headers.get("content-security-policy")).toBe(
      "default-src 'none'; frame-ancestors 'none'",
    );
  }
});

it("serves HEAD like GET without a body, signed as HEAD", async () => {
  const key = await newKey(await newUser(), ["read"]);
  const response = await sendSigned(key, "/auth/whoami", { method: "HEAD" });
  expect(response.status).toBe(200);
  expect(await response.text()).toBe("");
  expect(
    (
      await send("/auth/whoami", {
        method: "HEAD",
        headers: sign(key, { method: "GET", target: "/auth/whoami" }),
      })
    ).status,
  ).toBe(401);
});

it("verifies signatures over the request target as received", async () => {
  const key = await newKey(await newUser(), ["read"]);
  for (const target of ["/auth/whoami", "/auth/whoami?", "/auth/who%61mi", "/auth/whoami??"]) {
    const response = await sendSigned(key, target);
    expect([target, response.status]).toEqual([target, target.endsWith("??") ? 400 : 200]);
  }
  const withoutQuery = await send("/auth/whoami?x=1", {
    headers: sign(key, { method: "GET", target: "/auth/whoami" }),
  });
  expect(await problemOf(withoutQuery)).toMatchObject({
    code: "signature_invalid",
    signed: {
      method: "GET",
      path_and_query: "/auth/whoami?x=1",
      body_bytes: 0,
      body_sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    },
  });
});

it("verifies signatures over raw body bytes before parsing JSON", async () => {
  const key = await newKey(await newUser(), ["trade"]);
  const body = new Uint8Array([0x7b, 0xff, 0xfe, 0x00, 0x80, 0x7d]);
  const response = await sendSigned(key, "/rfq/request", { method: "POST", body });
  expect(await problemOf(response)).toMatchObject({
    status: 400,
    errors: [{ path: "body", message: "is not UTF-8" }],
  });
  const changed = await send("/rfq/request", {
    method: "POST",
    body: new Uint8Array([...body, 0x20]),
    headers: sign(key, { method: "POST", target: "/rfq/request", body }),
  });
  expect(await problemOf(changed)).toMatchObject({
    code: "signature_invalid",
    signed: { body_bytes: 7 },
  });
});

it("authenticates a cached key or session without reading D1", async () => {
  const user = await newUser();
  const key = await newKey(user, ["read"]);
  const noDatabase = { env: { DB: null } };
  expect((await sendSigned(key, "/auth/whoami", noDatabase)).status).toBe(500);
  expect((await sendSigned(key, "/auth/whoami")).status).toBe(200);
  expect((await sendSigned(key, "/auth/whoami", noDatabase)).status).toBe(200);
  expect((await send("/auth/whoami", { headers: bearer(user.token) })).status).toBe(200);
  expect((await send("/auth/whoami", { headers: bearer(user.token), ...noDatabase })).status).toBe(
    200,
  );
});

it("rejects made-up key ids without reading D1", async () => {
  const noDatabase = { env: { DB: null } };
  const secret = "not-the-secret";
  for (const apiKeyId of [crypto.randomUUID(), "", "x", `${crypto.randomUUID()}0`]) {
    const response = await sendSigned({ apiKeyId, secret }, "/auth/whoami", noDatabase);
    expect(await codeOf(response)).toBe("401 api_key_unknown");
  }
  // An id that the service could have made is looked up.
  const unknown = { apiKeyId: newKeyId(settings()), secret };
  expect((await sendSigned(unknown, "/auth/whoami", noDatabase)).status).toBe(500);
  expect(await codeOf(await sendSigned(unknown, "/auth/whoami"))).toBe("401 api_key_unknown");
  const key = await newKey(await newUser(), ["read"]);
  expect(key.apiKeyId).toMatch(UUID_V4);
  const upper = { ...key, apiKeyId: key.apiKeyId.toUpperCase() };
  expect((await sendSigned(upper, "/auth/whoami")).status).toBe(200);
});

it("accepts timestamps up to and including the tolerance", async () => {
  const key = await newKey(await newUser(), ["read"]);
  const now = 1_800_000_000_000;
  vi.useFakeTimers({ now, toFake: ["Date"] });
  try {
    for (const [skew, status] of [
      [-30_000, 200],
      [30_000, 200],
      [-30_001, 401],
      [30_001, 401],
    ] as const) {
      const response = await sendSigned(key, "/auth/whoami", { timestamp: now + skew });
      expect([skew, response.status]).toEqual([skew, status]);
      if (status === 401)
        expect(await problemOf(response)).toMatchObject({
          code: "timestamp_outside_tolerance",
          skew_ms: skew,
          server_time: "2027-01-15T08:00:00.000Z",
        });
    }
  } finally {
    vi.useRealTimers();
  }
});

it("requires the JSON content type for bodies only", async () => {
  const user = await newUser();
  const headers = bearer(user.token);
  const post = (type: string | undefined, body?: string) =>
    send("/auth/ws-ticket", {
      method: "POST",
      headers: { ...headers, ...(type === undefined ? {} : { "content-type": type }) },
      ...(body === undefined ? {} : { body }),
    });
  expect((await post(undefined)).status).toBe(201);
  expect((await post("application/json", "{}")).status).toBe(201);
  for (const type of ["Application/JSON; charset=UTF-8", "application/json;charset=utf8;"])
    expect((await post(type, "{}")).status).toBe(201);
  expect((await post("application/json ;", "{}")).status).toBe(201);
  Object.assign(headers, { "content-encoding": "gzip" });
  const encoded = await post("application/json", "{}");
  expect(encoded.status).toBe(415);
  expect(await encoded.text()).toContain("Send the body without content-encoding.");
  Object.assign(headers, { "content-encoding": "identity" });
  for (const type of [
    "text/plain",
    "application/x-www-form-urlencoded",
    "application/json; charset=latin1",
    "application/jsonx",
    "",
  ]) {
    expect(await codeOf(await post(type, "{}"))).toBe("415 content_type_unsupported");
  }
  for (const body of ["[]", "1", "{", '{"a":1,"a":1}', "\u0000"])
    expect(await codeOf(await post("application/json", body))).toBe("400 invalid_request");
});

it("rejects a body over 64 KiB without Content-Length", async () => {
  let sent = 0;
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      sent += 16_384;
      controller.enqueue(new Uint8Array(16_384));
    },
  });
  const request = new Request("http://edge.test/auth/login", {
    method: "POST",
    body: endless,
    headers: { "content-type": "application/json" },
  });
  const response = await fullApp.hono.fetch(request, env, {
    waitUntil() {},
    passThroughOnException() {},
    props: {},
  } as never);
  expect(response.status).toBe(413);
  expect(sent).toBeLessThan(1_000_000);
});

const fixture = createApp();
const outcomes: Record<string, () => unknown> = {
  bug: () => {
    throw new TypeError("secret SQL text");
  },
  text: () => {
    throw "a thrown string";
  },
  database: () => {
    throw new Error("D1_ERROR: no such table: users");
  },
  unknown: () => {
    throw new OutcomeUnknown("g", {});
  },
};
for (const [name, act] of Object.entries(outcomes)) {
  for (const method of ["get", "post"] as const) {
    route(fixture, {
      method,
      path: `/fixture/${name}`,
      operationId: `${method}-${name}`,
      tag: "Test",
      summary: name,
      description: "A fixture.",
      credential: "public",
      response: z.object({}),
      handler: () => Promise.resolve(act()).then(() => ({})),
    });
  }
}
route(fixture, {
  method: "post",
  path: "/fixture/echo",
  operationId: "echo",
  tag: "Test",
  summary: "echo",
  description: "A fixture.",
  credential: "public",
  idempotent: true,
  body: z.strictObject({ n: integer(1, 5) }),
  response: z.object({ n: z.int(), key: z.string().nullable() }),
  status: 202,
  handler: async ({ body, idempotencyKey }) =>
    reply({ n: body.n, key: idempotencyKey ?? null }, { "idempotency-replayed": "true" }, 201),
});
route(fixture, {
  method: "delete",
  path: "/fixture/echo",
  operationId: "deleteEcho",
  tag: "Test",
  summary: "echo",
  description: "A fixture.",
  credential: "public",
  fields: z.strictObject({ id: uuidField, n: integer(1, 5).optional() }),
  response: z.object({ id: z.string(), n: z.int().optional() }),
  handler: async ({ fields }) => ({
    id: fields.id,
    ...(fields.n === undefined ? {} : { n: fields.n }),
  }),
});

streamRoute(fixture, {
  path: "/fixture/stream",
  operationId: "openFixtureStream",
  summary: "a socket",
  description: "A fixture.",
  query: z.strictObject({ since: integer(0, 9).optional() }),
  handler: async () => {
    const { 0: client, 1: server } = new WebSocketPair();
    server.accept();
    server.send("hello");
    return new Response(null, { status: 101, webSocket: client });
  },
});

const sendFixture = (target: string, sent: Sent = {}) => send(target, { ...sent, app: fixture });

it("reads a whole body although Content-Length is absent or wrong", async () => {
  const echo = (body: string, length: string | undefined) =>
    sendFixture("/fixture/echo", {
      method: "POST",
      body,
      ...(length === undefined ? {} : { headers: { "content-length": length } }),
    });
  for (const length of [undefined, "7", "0", "1", "6", "8", "65536", "+7", "x", ""])
    expect([length, await (await echo('{"n":3}', length)).json()]).toEqual([
      length,
      { n: 3, key: null },
    ]);
  const body = `{"n":3${" ".repeat(65_530)}}`;
  for (const length of [undefined, "7", "65536", "65537"])
    expect([length, (await echo(body, length)).status]).toEqual([length, 413]);
  expect((await echo(body.replace("  ", " "), "7")).status).toBe(201);
});

it("maps thrown values to problems with an outcome and without internals", async () => {
  for (const [name, status, outcomeOfGet, outcomeOfPost] of [
    ["bug", 500, "none", "unknown"],
    ["text", 500, "none", "unknown"],
    ["database", 503, "none", "unknown"],
    ["unknown", 503, "unknown", "unknown"],
  ] as const) {
    for (const [method, outcome] of [
      ["GET", outcomeOfGet],
      ["POST", outcomeOfPost],
    ] as const) {
      const response = await sendFixture(`/fixture/${name}`, { method });
      const text = await response.text();
      expect([name, method, response.status]).toEqual([name, method, status]);
      expect(JSON.parse(text)).toMatchObject({
        status,
        outcome,
        request_id: response.headers.get("x-request-id"),
      });
      expect(text).not.toMatch(/SQL|D1_ERROR|users|thrown|stack/);
      if (status === 503) expect(response.headers.get("retry-after")).toBe("1");
    }
  }
});

it("returns a working websocket with the request id", async () => {
  const response = await sendFixture("/fixture/stream?since=1", {
    headers: { upgrade: "websocket" },
  });
  expect(response.status).toBe(101);
  expect(response.headers.get("x-request-id")).toMatch(UUID_V4);
  const socket = response.webSocket;
  const message = new Promise((resolve) =>
    socket?.addEventListener("message", (event) => resolve(event.data)),
  );
  socket?.accept();
  expect(await message).toBe("hello");
  socket?.close();
  expect((await sendFixture("/fixture/stream")).status).toBe(426);
  expect(
    (await sendFixture("/fixture/stream?since=x", { headers: { upgrade: "websocket" } })).status,
  ).toBe(400);
});

it("takes the idempotency key from the header or the body", async () => {
  const post = (body: object, headers: Record<string, string> = {}) =>
    sendFixture("/fixture/echo", {
      method: "POST",
      body: JSON.stringify(body),
      headers,
    });
  const response = await post({ n: 1 }, { "idempotency-key": "k1" });
  expect([
    response.status,
    response.headers.get("idempotency-replayed"),
    await response.json(),
  ]).toEqual([201, "true", { n: 1, key: "k1" }]);
  expect(await (await post({ n: 1, idempotency_key: "k2" })).json()).toEqual({ n: 1, key: "k2" });
  expect((await post({ n: 1, idempotency_key: "k2" }, { "idempotency-key": "k2" })).status).toBe(
    201,
  );
  expect((await post({ n: 1, idempotency_key: "k2" }, { "idempotency-key": "k3" })).status).toBe(
    400,
  );
  expect((await post({ n: 1 }, { "idempotency-key": "x".repeat(129) })).status).toBe(400);
  expect((await post({ n: 1, idempotency_key: 7 })).status).toBe(400);
});

it("takes DELETE fields from query or body and rejects different values", async () => {
  const id = crypto.randomUUID();
  const del = (query: string, body?: object) =>
    sendFixture(`/fixture/echo${query}`, {
      method: "DELETE",
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  expect(await (await del(`?id=${id}&n=2`)).json()).toEqual({ id, n: 2 });
  expect(await (await del("", { id, n: 2 })).json()).toEqual({ id, n: 2 });
  expect(await (await del(`?id=${id.toUpperCase()}&n=2`, { id, n: 2.0 })).json()).toEqual({
    id,
    n: 2,
  });
  const differs = await del(`?id=${id}&n=2`, { n: 3, typo: 1 });
  expect((await problemOf(differs))["errors"]).toEqual([
    { path: "body.n", message: "must equal the query parameter" },
    { path: "body.typo", message: "unknown field" },
  ]);
});

/** Bindings that count the requests of each key and reject those beyond `limits`. */
function countingLimiters(limits: Record<string, number> = {}) {
  const counts = new Map<string, number>();
  const limiter = (binding: string) => ({
    limit: async ({ key }: { key: string }) => {
      const count = (counts.get(`${binding} ${key}`) ?? 0) + 1;
      counts.set(`${binding} ${key}`, count);
      return { success: count <= (limits[binding] ?? Infinity) };
    },
  });
  const bindings = ["ADDRESS", "ADDRESS_BLOCK", "AUTH", "READ", "TRADE", "WITHDRAW"]
    .flatMap((name) => [`RATE_${name}`, `RATE_${name}_CREDENTIAL`])
    .map((name) => [name, limiter(name)]);
  return { counts, on: { RATE_LIMITS: "on", ...Object.fromEntries(bindings) } };
}

it("returns 429 with rate-limit headers, by address before credential", async () => {
  const user = await newUser();
  const { on } = countingLimiters({ RATE_READ: 0 });
  const limited = await send("/auth/api-keys", { headers: bearer(user.token), env: on });
  expect(limited.headers.get("ratelimit")).toBe('"read";r=0;t=10');
  expect(limited.headers.get("retry-after")).toBe("10");
  expect(await codeOf(limited)).toBe("429 rate_limited");
  expect((await send("/auth/whoami", { headers: bearer(user.token), env: on })).status).toBe(200);
  const noAddress = countingLimiters({ RATE_ADDRESS: 0 }).on;
  expect(await codeOf(await send("/auth/whoami", { env: noAddress }))).toBe("429 rate_limited");
});

it("gives all credentials of a user together one budget", async () => {
  const user = await newUser();
  const keys = await Promise.all(Array.from({ length: 6 }, () => newKey(user, ["read"])));
  const { on } = countingLimiters({ RATE_AUTH: 10 });
  const statuses: number[] = [];
  for (let round = 0; round < 3; round++)
    for (const key of keys)
      statuses.push((await sendSigned(key, "/auth/whoami", { env: on })).status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(10);
  const session = await send("/auth/whoami", { headers: bearer(user.token), env: on });
  expect(session.status).toBe(429);
  const other = await newUser();
  expect((await send("/auth/whoami", { headers: bearer(other.token), env: on })).status).toBe(200);
});

it("leaves a user budget although one credential runs away", async () => {
  const user = await newUser();
  const key = await newKey(user, ["read"]);
  const { on } = countingLimiters({ RATE_AUTH: 10, RATE_AUTH_CREDENTIAL: 8 });
  const statuses: number[] = [];
  for (let call = 0; call < 20; call++)
    statuses.push((await sendSigned(key, "/auth/whoami", { env: on })).status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(8);
  for (const expected of [200, 200, 429]) {
    const session = await send("/auth/whoami", { headers: bearer(user.token), env: on });
    expect(session.status).toBe(expected);
  }
});

it("counts a read of many records as several requests, of its user or its address", async () => {
  const user = await newUser();
  await writeNotices(user, 1_001);
  const { counts, on } = countingLimiters();
  const ip = anyIp();
  const headers = { ...bearer(user.token), "cf-connecting-ip": ip };
  const { last_seq: last } = await (
    await send("/account/events?limit=0", { headers, env: on })
  ).json<{ last_seq: number }>();
  counts.clear();
  // One event fits, and 1 001 are examined.
  const query = `since=${last - 1_001}&types=deposit.credited`;
  await send(`/account/events?${query}`, { headers, env: on });
  const counted = (name: string) =>
    [...counts].filter(([key]) => key.startsWith(`${name} `)).map(([, count]) => count);
  await expect.poll(() => counted("RATE_READ")).toEqual([11]);
  expect(counted("RATE_READ_CREDENTIAL")).toEqual([11]);
  expect(counted("RATE_ADDRESS")).toEqual([1]);
  const markets = Array.from({ length: 150 }, (_, n) => `venue_three:0xfee${n}`);
  await edit(env.DB, "markets", [
    sql`INSERT INTO markets (asset, title, outcome, test, changed_group)
      SELECT value, value, 'Yes', 1, (SELECT max(seq) FROM commit_groups)
      FROM json_each(${JSON.stringify(markets)})`,
  ]);
  const search = async () => {
    counts.clear();
    await send("/markets?test=true&q=fee149&limit=1", { headers, env: on });
    return counted("RATE_ADDRESS")[0];
  };
  // 150 are examined, of which an address may read 20 for each request.
  await expect.poll(search, { timeout: 5_000 }).toBeGreaterThanOrEqual(8);
});

it("limits an IPv6 /48 beside its /64s", async () => {
  const { counts, on } = countingLimiters({ RATE_ADDRESS: 1, RATE_ADDRESS_BLOCK: 3 });
  const from = async (ip: string) =>
    (await send("/time", { headers: { "cf-connecting-ip": ip }, env: on })).status;
  expect(await from("2001:db8:1:1::1")).toBe(200);
  expect(await from("2001:db8:1:1::2")).toBe(429);
  expect(await from("2001:db8:1:2::1")).toBe(200);
  expect(await from("2001:db8:1:3::1")).toBe(200);
  expect(await from("2001:db8:1:4::1")).toBe(429);
  expect(await from("2001:db8:2:1::1")).toBe(200);
  expect(await from("192.0.2.1")).toBe(200);
  expect([...counts.keys()].filter((key) => key.startsWith("RATE_ADDRESS_BLOCK"))).toHaveLength(2);
});

it("states the rate limits of a request on every response", async () => {
  const user = await newUser();
  const { on } = countingLimiters();
  const policies = async (target: string, sent: Sent = {}) =>
    (await send(target, { ...sent, env: on })).headers.get("ratelimit-policy");
  const address = '"address";q=3000;w=10, "address-block";q=12000;w=10';
  expect(await policies("/time")).toBe(address);
  expect(await policies("/nope")).toBe(address);
  expect(await policies("/time", { method: "POST" })).toBe(address);
  expect(await policies("/auth/whoami")).toBe(address);
  expect(await policies("/auth/api-keys", { headers: bearer(user.token) })).toBe(
    `${address}, "read";q=1000;w=10, "read-credential";q=800;w=10`,
  );
  const ticket: string = (await apiOf(user).post("/auth/ws-ticket")).json["ticket"];
  const upgrade = { headers: { upgrade: "websocket" } };
  expect(await policies(`/account/stream?ticket=${ticket}`, upgrade)).toBe(address);
  expect(await policies("/account/stream?ticket=x", upgrade)).toBe(address);
  expect((await send("/time")).headers.get("ratelimit-policy")).toBeNull();
});

it("states on /config the rate limits of wrangler.toml", async () => {
  const { limits } = await (await send("/config")).json<{ limits: Record<string, number> }>();
  const configured = [...wranglerText.matchAll(/name = "RATE_(\w+)"[^[]*limit = (\d+)/g)].map(
    ([, name = "", limit]) => {
      const words = name.toLowerCase();
      const per = words.startsWith("address")
        ? `requests_per_${words}`
        : `${words.replace("_credential", "")}_requests_per_${words.endsWith("_credential") ? "credential" : "user"}`;
      return [`${per}_per_10_secs`, Number(limit)];
    },
  );
  expect(configured).toHaveLength(11);
  expect(limits).toMatchObject(Object.fromEntries(configured));
});

it("states on /config every other limit that rejects or ends something", async () => {
  const { limits } = await (await send("/config")).json<{ limits: Record<string, unknown> }>();
  expect(limits).toMatchObject({
    commands_in_flight_per_socket: 8,
    commands_in_flight_per_user_and_book: 16,
    commands_in_flight_per_user_and_stream: 16,
    commands_waiting_per_book: 2_000,
    command_wait_ms: config(env).RFQ_COMMAND_MAX_WAIT_MS,
    failed_logins_per_email_and_unknown_network_per_15_mins: 2,
    logins_in_progress_per_network: 2,
    logins_in_progress_per_known_network: 8,
    password_min_chars: 12,
    small_deposits_credited_together: 1_000,
    balance_max_amount: "0x4000000000000000",
    statements_per_user: 1,
    statement_idle_secs: 60,
    snapshot_frame_bytes: 262_144,
    event_life_secs: 7_200,
    hot_window_secs: 3_600,
  });
});

it("allows cross-origin calls only from CORS_ORIGINS", async () => {
  const cors = { CORS_ORIGINS: "https://app.example" };
  const from = (origin: string, more: object = {}) =>
    send("/time", { headers: { origin }, ...more });
  expect((await from("https://app.example")).headers.get("access-control-allow-origin")).toBeNull();
  expect(
    (await from("https://app.example", { env: cors })).headers.get("access-control-allow-origin"),
  ).toBe("https://app.example");
  expect(
    (await from("https://evil.example", { env: cors })).headers.get("access-control-allow-origin"),
  ).toBeNull();
  const ask = {
    method: "OPTIONS",
    headers: { origin: "https://app.example", "access-control-request-method": "POST" },
  };
  const preflight = await send("/auth/login", { ...ask, env: cors });
  expect([preflight.status, preflight.headers.get("access-control-allow-methods")]).toEqual([
    204,
    "POST",
  ]);
  expect((await send("/auth/login", ask)).status).toBe(405);
});

it("names invalid settings without their values", async () => {
  const response = await send("/auth/whoami", { env: { SESSION_SECRETS: "not json: hunter2" } });
  const text = await response.text();
  expect(response.status).toBe(503);
  expect(text).not.toContain("hunter2");
  expect(text).toContain("SESSION_SECRETS");
});

it("logs no secrets, tokens, tickets, signatures, passwords or bodies", async () => {
  const lines: string[] = [];
  const spies = (["log", "warn", "error", "info", "debug"] as const).map((level) =>
    vi
      .spyOn(console, level)
      .mockImplementation((...parts: unknown[]) => void lines.push(parts.join(" "))),
  );
  try {
    const user = await newUser();
    const key = await newKey(user, ["read"]);
    const password = `pass-${crypto.randomUUID()}`;
    const email = `${crypto.randomUUID()}@log.test`;
    await send("/auth/register", { method: "POST", body: JSON.stringify({ email, password }) });
    await send("/auth/login", {
      method: "POST",
      body: JSON.stringify({ email, password: `${password}x` }),
    });
    const minted = await (
      await send("/auth/api-keys", {
        method: "POST",
        headers: bearer(user.token),
        body: '{"label":"label-in-body","scopes":["read"]}',
      })
    ).json<{ secret: string }>();
    const ticket = await (
      await send("/auth/ws-ticket", { method: "POST", headers: bearer(user.token) })
    ).json<{ ticket: string }>();
    await send(`/account/stream?ticket=${ticket.ticket}&typo=1`, {
      headers: { upgrade: "websocket" },
    });
    await send(`/account/stream?ticket=x${ticket.ticket}`, { headers: { upgrade: "websocket" } });
    const signature = sign(key, { method: "GET", target: "/auth/whoami" });
    await send("/auth/whoami", { headers: signature });
    await sendFixture("/fixture/bug", {
      method: "POST",
      body: "{}",
      headers: { authorization: `Bearer ${user.token}` },
    });
    const all = lines.join("\n");
    const secrets = [
      key.secret,
      minted.secret,
      user.token,
      ticket.ticket,
      password,
      email,
      "label-in-body",
      signature["x-hmac-signature"] ?? "",
      ...Object.values(settings().SESSION_SECRETS),
      ...Object.values(settings().MASTER_KEYS),
    ];
    for (const secret of secrets) expect(all).not.toContain(secret);
    for (const line of lines) expect(() => JSON.parse(line)).not.toThrow();
    expect(all).toContain(`"user_id":"${user.userId}"`);
    expect(all).toContain('"route":"/account/stream"');
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
});

it("publishes an OpenAPI 3.1 description of all routes", async () => {
  const text = await (await send("/openapi.json")).text();
  const description = JSON.parse(text) as {
    openapi: string;
    info: { version: string };
    paths: Record<string, object>;
    components: { responses: Record<string, object> };
  };
  expect([description.openapi, description.info.version]).toEqual(["3.1.0", "0.1.0"]);
  expect(JSON.stringify(description.paths["/auth/login"])).toContain("responses/RateLimitedLogin");
  const { RateLimitedLogin: limited } = description.components.responses;
  expect(JSON.stringify(limited)).toContain("login_throttled");
  expect(await codeOf(await send("/openapi.json?x=1"))).toBe("400 invalid_request");
});

it("serves what the generator makes of the routes now", async () => {
  const served = await send("/openapi.json");
  expect(await served.text()).toBe(JSON.stringify(describeApi(fullApp)));
  expect(served.headers.get("content-type")).toBe("application/json");
});

it("returns 503 if the database does not respond to a list", async () => {
  const all = () => Promise.reject(new Error("D1_ERROR: down"));
  const response = await send("/markets?q=never-asked-before", {
    env: { DB: { prepare: () => ({ bind: () => ({ raw: all }) }) } },
  });
  expect(await problemOf(response)).toMatchObject({
    status: 503,
    code: "unavailable",
    outcome: "none",
  });
});

it("reports an unresponsive database on /health", async () => {
  const broken = {
    DB: {
      prepare: () => ({ bind: () => ({ all: () => Promise.reject(new Error("D1_ERROR: down")) }) }),
    },
  };
  const response = await send("/health", { env: broken });
  expect(await problemOf(response)).toMatchObject({
    status: 503,
    code: "unavailable",
    outcome: "none",
  });
});

it("serves /health and /config from memory for a second", async () => {
  let reads = 0;
  let down = false;
  const rows = () => {
    reads++;
    return down ? Promise.reject(new Error("D1_ERROR: down")) : Promise.resolve({ results: [] });
  };
  const DB = { prepare: () => ({ bind: () => ({ all: rows }) }) };
  // The bindings are one object in an isolate, unlike those of `send`.
  const bindings = { ...env, DB };
  const get = async (path: string) => {
    const context = createExecutionContext();
    const response = await fullApp.hono.fetch(new Request(`${BASE}${path}`), bindings, context);
    return response.status;
  };
  vi.useFakeTimers({ now: 1_800_000_000_000, toFake: ["Date"] });
  try {
    for (const path of ["/health", "/config"]) {
      reads = 0;
      for (let call = 0; call < 20; call++) expect(await get(path)).toBe(200);
      expect([path, reads]).toEqual([path, 1]);
      vi.advanceTimersByTime(1_000);
      expect(await get(path)).toBe(200);
      expect([path, reads]).toEqual([path, 2]);
    }
    down = true;
    vi.advanceTimersByTime(1_000);
    expect([await get("/health"), await get("/health")]).toEqual([503, 503]);
    expect(reads).toBe(3);
  } finally {
    vi.useRealTimers();
  }
});

it("serialises /openapi.json once", async () => {
  const own = createApp();
  const first = await (await send("/openapi.json", { app: own })).text();
  const serialise = vi.spyOn(JSON, "stringify");
  try {
    expect(await (await send("/openapi.json", { app: own })).text()).toBe(first);
    const largest = Math.max(...serialise.mock.results.map(({ value }) => String(value).length));
    expect(largest).toBeLessThan(10_000);
  } finally {
    serialise.mockRestore();
  }
});
