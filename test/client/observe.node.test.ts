/** What a client reports about its calls, and the sessions that it renews. */
import { afterEach, expect, it } from "vitest";
import {
  Client,
  Problem,
  PROBLEM_CODES,
  type ResponseEvent,
} from "../../packages/client/src/index.ts";
import { PROBLEM_CODES as codesOfService } from "../../src/platform/problem.ts";
import { type FakeService, type Received, startFakeService } from "../support/node/fake-service.ts";

const running: FakeService[] = [];
afterEach(async () => {
  for (const service of running.splice(0)) await service.stop();
});
async function serve(...parameters: Parameters<typeof startFakeService>): Promise<FakeService> {
  const service = await startFakeService(...parameters);
  running.push(service);
  return service;
}

const time = { server_time: "2026-11-22T09:00:00.000Z", unix_ms: 1 };
const who = (request: Received) => request.headers["authorization"];

it("knows the codes of the service", () => {
  expect(PROBLEM_CODES).toEqual(codesOfService);
});

it("compares the code of a problem with known ones", () => {
  const late = new Problem({ code: "quote_expired" }, { status: 409 });
  expect([late.is("quote_expired"), late.is("quote_not_open")]).toEqual([true, false]);
  expect(late.is("quote_not_open", "quote_expired")).toBe(true);
});

it("calls the hooks for each attempt of a call, without secrets", async () => {
  const { baseUrl } = await serve((_request, index) =>
    index === 0
      ? { status: 503, body: { code: "unavailable", outcome: "none" } }
      : { status: 200, body: time },
  );
  const events: unknown[] = [];
  const client = new Client({
    baseUrl,
    onRequest: (event) => events.push(event),
    onResponse: ({ durationMs, error, ...event }: ResponseEvent) =>
      events.push({ ...event, timed: durationMs >= 0, error: error instanceof Problem }),
  });
  await client.time();
  const call = { method: "GET", path: "/time" };
  expect(events).toEqual([
    { ...call, attempt: 1 },
    { ...call, attempt: 1, timed: true, error: true },
    { ...call, attempt: 2 },
    { ...call, attempt: 2, timed: true, error: false },
  ]);
});

it("exposes the rate limits of the last responses", async () => {
  const { baseUrl } = await serve(() => ({
    status: 200,
    headers: {
      "ratelimit-policy": '"address";q=3000;w=10, "read";q=1000;w=10',
      ratelimit: '"read";r=7;t=10',
    },
    body: time,
  }));
  const client = new Client({ baseUrl });
  expect(client.rateLimits()).toEqual([]);
  await client.time();
  expect(client.rateLimits()).toEqual([
    { name: "address", quota: 3_000, windowSecs: 10, remaining: null, resetsAt: null },
    { name: "read", quota: 1_000, windowSecs: 10, remaining: 7, resetsAt: expect.any(Number) },
  ]);
});

it("logs in once for many calls and again when the session expires", async () => {
  let logins = 0;
  const { baseUrl, received } = await serve((request) => {
    if (request.target === "/auth/login")
      return { status: 200, body: { access_token: `token-${++logins}`, expires_in: 3_600 } };
    return logins === 1 && received.length > 4
      ? { status: 401, body: { code: "session_expired" } }
      : { status: 200, body: { balance: "0x1", pending_balance: "0x0" } };
  });
  const credential = { email: "you@example.com", password: "correct horse battery" };
  const client = new Client({ baseUrl, credential });
  await Promise.all([1, 2, 3].map(() => client.custody.usdcBalance()));
  expect(logins).toBe(1);
  await Promise.all([1, 2].map(() => client.custody.usdcBalance()));
  expect(logins).toBe(2);
  expect(who(received.at(-1) ?? expect.fail())).toBe("Bearer token-2");
});

it("logs in again before a session expires", async () => {
  let logins = 0;
  const { baseUrl } = await serve((request) =>
    request.target === "/auth/login"
      ? { status: 200, body: { access_token: `token-${++logins}`, expires_in: 0 } }
      : { status: 200, body: { balance: "0x1", pending_balance: "0x0" } },
  );
  const credential = { email: "you@example.com", password: "correct horse battery" };
  const client = new Client({ baseUrl, credential });
  await client.custody.usdcBalance();
  await client.custody.usdcBalance();
  expect(logins).toBe(2);
});

it("does not log in again for a session that was ended", async () => {
  let logins = 0;
  const { baseUrl } = await serve((request) =>
    request.target === "/auth/login"
      ? { status: 200, body: { access_token: `token-${++logins}`, expires_in: 3_600 } }
      : { status: 401, body: { code: "session_invalid" } },
  );
  const credential = { email: "you@example.com", password: "correct horse battery" };
  const client = new Client({ baseUrl, credential });
  await expect(client.custody.usdcBalance()).rejects.toThrow("session_invalid");
  expect(logins).toBe(1);
});

it("asks for a one-time code at each login", async () => {
  const codes = ["111111", "222222"];
  let logins = 0;
  const { baseUrl, received } = await serve((request) =>
    request.target === "/auth/login"
      ? { status: 200, body: { access_token: `token-${++logins}`, expires_in: 0 } }
      : { status: 200, body: { balance: "0x1", pending_balance: "0x0" } },
  );
  const credential = {
    email: "you@example.com",
    password: "correct horse battery",
    totpCode: () => Promise.resolve(codes[logins] ?? expect.fail("asked too often")),
  };
  const client = new Client({ baseUrl, credential });
  await client.custody.usdcBalance();
  await client.custody.usdcBalance();
  const sent = received.filter(({ target }) => target === "/auth/login");
  expect(sent.map(({ body }) => JSON.parse(body.toString()) as unknown)).toEqual(
    codes.map((totp_code) => ({
      email: "you@example.com",
      password: "correct horse battery",
      totp_code,
    })),
  );
});

it("says what an account with TOTP needs when there is no code", async () => {
  const { baseUrl } = await serve(() => ({
    status: 401,
    body: { code: "totp_required", detail: "Send totp_code.", request_id: "r" },
  }));
  const credential = { email: "you@example.com", password: "correct horse battery" };
  const client = new Client({ baseUrl, credential });
  await expect(client.custody.usdcBalance()).rejects.toMatchObject({
    name: "Problem",
    code: "totp_required",
    status: 401,
    requestId: "r",
    message: expect.stringContaining("totpCode") as string,
  });
});
