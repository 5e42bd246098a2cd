import { createHmac } from "node:crypto";
import { afterEach, describe, expect, it, vi } from "vitest";
import { Client, NoAnswer, Problem } from "../../packages/client/src/index.ts";
import { retryDelay } from "../../packages/client/src/transport.ts";
import {
  type FakeService,
  type Received,
  type Reply,
  startFakeService,
} from "../support/node/fake-service.ts";

const SECRET = "kq3Vt0m1y8Zb5cXwR7uN2pQeLsHdJfGaTiOvYxMzC4E";
const running: FakeService[] = [];
afterEach(async () => {
  for (const service of running.splice(0)) await service.stop();
});

async function serve(
  reply: (request: Received, index: number) => Reply,
  options: { now?: () => number; attempts?: number; timeoutMs?: number } = {},
) {
  const service = await startFakeService(reply);
  running.push(service);
  return {
    ...service,
    client: new Client({
      baseUrl: service.baseUrl,
      credential: { apiKeyId: "key-1", secret: SECRET },
      ...options,
    }),
  };
}

function signatureOf({ method, target, headers, body }: Received): string {
  const head = `${String(headers["x-hmac-timestamp"])}\n${method}\n${target}\n`;
  return createHmac("sha256", SECRET).update(head).update(body).digest("base64");
}

describe("requests", () => {
  it("sign the bytes and the target that arrive", async () => {
    const { client, received } = await serve(() => ({ body: { items: [], next_cursor: null } }));
    await client.rfq.openRequests({ venue_id: "venue_one", asset_id: "0xab", limit: 10 }).page();
    await client.custody
      .ledger({ ref_id: "it's a+b ~é", reasons: ["trade", "fee"], min_amount: 2n ** 70n })
      .page();
    await client.rfq.accept({ quote_id: "q-é" });
    expect(received).toHaveLength(3);
    for (const request of received) {
      expect(request.headers["apikey"]).toBe("key-1");
      expect(request.headers["x-hmac-signature"]).toBe(signatureOf(request));
    }
    expect(received[0]?.target).toBe("/rfq/request?limit=10&venue_id=venue_one&asset_id=0xab");
    expect(received[1]?.target).toBe(
      "/custody/get-ledger?ref_id=it%27s%20a%2Bb%20~%C3%A9" +
        "&min_amount=1180591620717411303424&reasons=trade%2Cfee",
    );
  });

  it("encode amounts as decimal strings, exact above 2^53", async () => {
    const { client, received } = await serve(() => ({ status: 201 }));
    await client.rfq.request({
      venue_id: "venue_two",
      asset_id: "0x1",
      amount: 2n ** 200n + 1n,
      side: "Ask",
    });
    expect(JSON.parse(received[0]?.body.toString() ?? "")).toMatchObject({
      amount: String(2n ** 200n + 1n),
    });
  });

  it("decode amounts as bigints, exact above 2^53", async () => {
    const { client } = await serve(() => ({
      body: { balance: `0x${"f".repeat(64)}`, pending_balance: "0x0" },
    }));
    expect(await client.custody.usdcBalance()).toEqual({
      balance: 2n ** 256n - 1n,
      pending_balance: 0n,
    });
  });

  it("keep a text in an amount field that is not an amount", async () => {
    const { client } = await serve(() => ({
      body: { chains: [], limits: { fee: "none", amount: "12", delta: "-3" } },
    }));
    expect((await client.config()).limits).toEqual({ fee: "none", amount: 12n, delta: -3n });
  });

  it("send one idempotency key for all attempts of a write", async () => {
    const { client, received } = await serve(({ target }, index) =>
      target === "/rfq/quote" && index === 1 ? { hangUp: true } : { status: 201 },
    );
    await client.rfq.quote({ request_id: "r", price: 1 });
    const keys = received
      .slice(1)
      .map(
        ({ body }) => (JSON.parse(body.toString()) as { idempotency_key: string }).idempotency_key,
      );
    expect(keys).toHaveLength(2);
    expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/);
    expect(keys[1]).toBe(keys[0]);
  });
});

describe("the deadline of a quote", () => {
  const bodyOf = ({ body }: Received) => JSON.parse(body.toString()) as { not_after?: string };
  const quotesOf = (received: Received[]) =>
    received.filter(({ target }) => target === "/rfq/quote").map(bodyOf);

  it("is by the service's clock, which is read once", async () => {
    const ahead = 3_600_000;
    const { client, received } = await serve(({ target }) =>
      target === "/time" ? { body: { unix_ms: Date.now() + ahead } } : { status: 201 },
    );
    for (const maxAgeMs of [1_000, 5_000])
      await client.rfq.quote({ request_id: "r", price: 1 }, { maxAgeMs });
    expect(received.map(({ target }) => target)).toEqual(["/time", "/rfq/quote", "/rfq/quote"]);
    const left = quotesOf(received).map(
      ({ not_after = "" }) => Date.parse(not_after) - ahead - Date.now(),
    );
    expect(left[0]).toBeGreaterThan(0);
    expect(left[0]).toBeLessThanOrEqual(1_050);
    expect(left[1]).toBeGreaterThan(4_000);
  });

  it("ends the repetitions", async () => {
    const { client, received } = await serve(
      ({ target }) => (target === "/rfq/quote" ? { hangUp: true } : { body: {} }),
      { attempts: 100 },
    );
    const startedAt = Date.now();
    await expect(
      client.rfq.quote({ request_id: "r", price: 1 }, { maxAgeMs: 300 }),
    ).rejects.toBeInstanceOf(NoAnswer);
    expect(Date.now() - startedAt).toBeLessThan(1_500);
    const sent = quotesOf(received);
    expect(sent.length).toBeGreaterThan(0);
    expect(new Set(sent.map(({ not_after }) => not_after)).size).toBe(1);
  });

  it("does not depend on another call that was aborted while it read the clock", async () => {
    const stop = new AbortController();
    const { client } = await serve(({ target }) => {
      if (target === "/time") stop.abort(new Error("stopped by the caller"));
      return { status: 201, body: { quote_id: "q" } };
    });
    const quote = (signal?: AbortSignal) =>
      client.rfq.quote({ request_id: "r", price: 1 }, { signal });
    const [stopped, other] = await Promise.allSettled([quote(stop.signal), quote()]);
    expect(stopped).toMatchObject({ reason: { message: "stopped by the caller" } });
    expect(other).toMatchObject({ status: "fulfilled", value: { quote_id: "q" } });
  });

  it("can be given, or left out", async () => {
    const { client, received } = await serve(() => ({ status: 201 }));
    const not_after = new Date(Date.now() + 60_000).toISOString();
    await client.rfq.quote({ request_id: "r", price: 1, not_after });
    await client.rfq.quote({ request_id: "r", price: 1 }, { maxAgeMs: Infinity });
    expect(quotesOf(received).map((body) => body.not_after)).toEqual([not_after, undefined]);
    const past = client.rfq.quote({ request_id: "r", price: 1, not_after: new Date(0) });
    await expect(past).rejects.toThrow("its deadline passed before it was sent");
  });
});

const UNAVAILABLE: Reply = { status: 503, body: { code: "unavailable", outcome: "none" } };

describe("options of a call", () => {
  it("timeoutMs limits the whole call", async () => {
    const { client } = await serve(() => UNAVAILABLE, { attempts: 1_000 });
    const startedAt = Date.now();
    await expect(client.auth.whoami({ timeoutMs: 300 })).rejects.toBeInstanceOf(Problem);
    expect(Date.now() - startedAt).toBeLessThan(1_500);
  });

  it("timeoutMs may be infinite", async () => {
    const { client } = await serve(() => ({}), { timeoutMs: Infinity });
    expect(await client.auth.whoami({ timeoutMs: Infinity })).toEqual({});
  });

  it("signal ends the call and its repetitions", async () => {
    const { client } = await serve(() => UNAVAILABLE, { attempts: 1_000 });
    const signal = AbortSignal.timeout(300);
    await expect(client.rfq.accept({ quote_id: "q" }, { signal })).rejects.toThrow("timeout");
    const pages = client.rfq.matches({}, { signal });
    await expect(pages.page()).rejects.toThrow("timeout");
  });
});

describe("clock correction", () => {
  it("applies to later calls", async () => {
    const serverNow = Date.now();
    const skewed = serverNow - 90_000;
    const refuse = (request: Received): Reply => {
      const skew = Number(request.headers["x-hmac-timestamp"]) - serverNow;
      return Math.abs(skew) <= 30_000
        ? {}
        : { status: 401, body: { code: "timestamp_outside_tolerance", skew_ms: skew } };
    };
    const { client, received } = await serve(refuse, { now: () => skewed });
    await client.auth.createApiKey({ label: "x", scopes: ["read"] });
    await client.auth.whoami();
    expect(received).toHaveLength(3);
  });

  it("is not needed when the wall clock is set", async () => {
    const ahead = Date.now() - performance.now();
    const { client, received } = await serve(() => ({}));
    for (const step of [0, 3_600_000, -3_600_000]) {
      vi.spyOn(Date, "now").mockReturnValue(performance.now() + ahead + step);
      await client.auth.whoami();
    }
    vi.restoreAllMocks();
    for (const { headers } of received) {
      const skew = Number(headers["x-hmac-timestamp"]) - performance.now() - ahead;
      expect(Math.abs(skew)).toBeLessThan(30_000);
    }
  });

  it("is applied once by concurrent calls", async () => {
    const serverNow = Date.now();
    const refuse = (request: Received): Reply => {
      const skew = Number(request.headers["x-hmac-timestamp"]) - serverNow;
      return Math.abs(skew) <= 30_000
        ? {}
        : { status: 401, body: { code: "timestamp_outside_tolerance", skew_ms: skew } };
    };
    const { client, received } = await serve(refuse, { now: () => serverNow + 3_600_000 });
    await Promise.all([client.auth.whoami(), client.custody.usdcBalance(), client.auth.whoami()]);
    await client.auth.whoami();
    expect(received).toHaveLength(7);
  });

  it("is tried once per call", async () => {
    const { client, received } = await serve(() => ({
      status: 401,
      body: { code: "timestamp_outside_tolerance", skew_ms: 60_000 },
    }));
    await expect(client.auth.whoami()).rejects.toMatchObject({
      code: "timestamp_outside_tolerance",
    });
    expect(received).toHaveLength(2);
  });
});

describe("retries", () => {
  it("repeat a read after a lost response", async () => {
    const { client, received } = await serve((_request, index) =>
      index < 2 ? { hangUp: true } : { body: { user_id: "u" } },
    );
    expect(await client.auth.whoami()).toEqual({ user_id: "u" });
    expect(received).toHaveLength(3);
  });

  it("never repeat a non-idempotent call after a lost response", async () => {
    const { client, received } = await serve(() => ({ hangUp: true }));
    await expect(client.auth.createApiKey({ label: "x", scopes: ["read"] })).rejects.toBeInstanceOf(
      NoAnswer,
    );
    await expect(client.custody.createDepositAddress()).rejects.toBeInstanceOf(NoAnswer);
    expect(received).toHaveLength(2);
  });

  it("never start the count of a protection again after a lost response", async () => {
    const { client, received } = await serve(() => ({ hangUp: true }));
    // A match may have tripped it since the lost attempt, or counts towards the next trip.
    await expect(client.rfq.resetProtection()).rejects.toBeInstanceOf(NoAnswer);
    await expect(client.rfq.saveProtection({ window_secs: 60 })).rejects.toBeInstanceOf(NoAnswer);
    expect(received).toHaveLength(2);
  });

  const LOST: Reply = { hangUp: true };
  const UNKNOWN: Reply = { status: 503, body: { code: "unavailable", outcome: "unknown" } };
  const LIMITED: Reply = {
    status: 429,
    headers: { "retry-after": "60" },
    body: { code: "rate_limited" },
  };
  const NO_EFFECT: Reply = { status: 503, body: { code: "unavailable", outcome: "none" } };
  it.each([
    { name: "no response, then a rate limit", first: LOST, last: LIMITED },
    { name: "an unknown outcome, then none", first: UNKNOWN, last: NO_EFFECT },
    { name: "a proxy's 502, then a rate limit", first: { status: 502 }, last: LIMITED },
  ])("report that the call may have taken effect after $name", async ({ first, last }) => {
    const { client, received } = await serve((_request, index) => (index === 0 ? first : last), {
      attempts: 2,
    });
    const error = await client.rfq.accept({ quote_id: "q" }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(NoAnswer);
    expect(error).toMatchObject({ cause: { status: last.status } });
    expect(received).toHaveLength(2);
  });

  it("report the last problem if no attempt can have had an effect", async () => {
    const replies = [LIMITED, NO_EFFECT].map((reply) => ({ ...reply, headers: {} }));
    const { client } = await serve((_request, index) => replies[index] ?? LIMITED, { attempts: 3 });
    await expect(client.rfq.accept({ quote_id: "q" })).rejects.toMatchObject({ status: 429 });
    const read = await serve((_request, index) => (index === 0 ? UNKNOWN : LIMITED));
    await expect(read.client.auth.whoami()).rejects.toMatchObject({ status: 429 });
  });

  it("stop after the given number of attempts", async () => {
    const { client, received } = await serve(
      () => ({ status: 503, body: { code: "unavailable", outcome: "unknown" } }),
      { attempts: 3 },
    );
    await expect(client.custody.usdcBalance()).rejects.toMatchObject({ status: 503 });
    expect(received).toHaveLength(3);
  });

  const problem = (
    status: number,
    body: Record<string, unknown>,
    retryAfterSecs: number | null = null,
  ) => new Problem(body, { status, retryAfterSecs });
  const half = () => 0.5;

  it("wait for Retry-After or a growing random time", () => {
    expect(retryDelay(problem(429, { code: "rate_limited" }, 2), false, 1, half)).toBe(2_100);
    expect(retryDelay(problem(503, { code: "unavailable" }), true, 3, half)).toBe(400);
    expect(retryDelay(problem(503, { code: "unavailable" }), true, 30, half)).toBe(2_500);
    expect(retryDelay(problem(429, { code: "rate_limited" }, 3_600), true, 1, half)).toBeNull();
  });

  it("accept Retry-After as seconds and as a date", async () => {
    const { client } = await serve(
      (_request, index) => ({
        status: 429,
        headers: { "retry-after": index === 0 ? "7" : new Date(Date.now() + 60_000).toUTCString() },
        body: { code: "rate_limited" },
      }),
      { attempts: 1 },
    );
    await expect(client.health()).rejects.toMatchObject({ retryAfterSecs: 7 });
    const { retryAfterSecs } = (await client.health().catch((error: unknown) => error)) as Problem;
    expect(retryAfterSecs).toBeGreaterThan(50);
    expect(retryAfterSecs).toBeLessThanOrEqual(60);
  });

  it("honour Retry-After", async () => {
    const { client, received } = await serve((_request, index) =>
      index === 0
        ? { status: 429, headers: { "retry-after": "1" }, body: { code: "rate_limited" } }
        : { status: 201 },
    );
    const startedAt = Date.now();
    await client.custody.createDepositAddress();
    expect(Date.now() - startedAt).toBeGreaterThanOrEqual(1_000);
    expect(received).toHaveLength(2);
  });

  it("are spread at random between clients", () => {
    const delays = Array.from({ length: 50 }, () => retryDelay(new NoAnswer("x", "lost"), true, 4));
    expect(new Set(delays).size).toBeGreaterThan(40);
    for (const delay of delays) expect(delay).toBeLessThanOrEqual(1_600);
  });

  it("time out, and repeat only idempotent calls", async () => {
    let calls = 0;
    const slow: typeof fetch = (_input, init) =>
      new Promise((_resolve, reject) => {
        calls++;
        init?.signal?.addEventListener("abort", () => reject(new Error("aborted")));
      });
    const client = new Client({
      baseUrl: "http://nowhere.test",
      fetch: slow,
      timeoutMs: 20,
      attempts: 2,
    });
    await expect(client.health()).rejects.toThrow("no response in time");
    expect(calls).toBe(2);
    await expect(client.auth.login({ email: "a", password: "b" })).rejects.toBeInstanceOf(NoAnswer);
    expect(calls).toBe(3);
  });

  it("repeat a non-idempotent call only if it had no effect", () => {
    expect(
      retryDelay(problem(503, { code: "unavailable", outcome: "none" }), false, 1, half),
    ).not.toBeNull();
    expect(
      retryDelay(problem(503, { code: "unavailable", outcome: "unknown" }), false, 1, half),
    ).toBeNull();
    expect(retryDelay(new NoAnswer("x", "lost"), false, 1, half)).toBeNull();
    expect(retryDelay(problem(500, { code: "internal" }), true, 1, half)).toBeNull();
    expect(retryDelay(problem(409, { code: "quote_expired" }), true, 1, half)).toBeNull();
    expect(retryDelay(problem(429, { code: "login_throttled" }, 1), false, 1, half)).toBeNull();
  });
});

describe("problems", () => {
  it("contain code, status, request id and the whole body", async () => {
    const { client } = await serve(() => ({
      status: 409,
      headers: { "x-request-id": "7f0c" },
      body: { code: "insufficient_funds", title: "Too little", available: "0x1", required: "0x2" },
    }));
    const error: unknown = await client.rfq
      .accept({ quote_id: "q" })
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Problem);
    expect(error).toMatchObject({
      code: "insufficient_funds",
      status: 409,
      requestId: "7f0c",
      body: { available: "0x1" },
    });
  });
});

describe("pages", () => {
  it("yield every item of all pages once", async () => {
    const { client, received } = await serve(({ target }) => {
      const cursor = Number(new URL(target, "http://x").searchParams.get("last_cursor") ?? "5");
      const next = cursor - 2;
      return { body: { items: [cursor, cursor - 1], next_cursor: next > 0 ? String(next) : null } };
    });
    expect(await client.rfq.matches({ limit: 2 }).all()).toEqual([5, 4, 3, 2, 1, 0]);
    expect(received).toHaveLength(3);
  });

  it("end at once with a limit of 0", async () => {
    const { client, received } = await serve(() => ({ body: { items: [], next_cursor: "5" } }));
    expect(await client.rfq.matches({ limit: 0 }).all()).toEqual([]);
    expect(received).toHaveLength(1);
  });
});
