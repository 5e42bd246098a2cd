/** What both clients do alike. The Python client has the same tests, with the same cases.json. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Client, NoAnswer, NotSent, Problem, Stream } from "../../packages/client/src/index.ts";
import { reconnectDelay } from "../../packages/client/src/stream-retry.ts";
import { type FakeVenue, fakeVenue, refusal } from "../support/node/fake-venue.ts";
import CASES from "./cases.json" with { type: "json" };

const ORDER = { request_id: "r", price: 650_000 };
const TERMS = { venue_id: "venue_one", asset_id: "0x1", side: "Bid", amount: 1n } as const;
let venue: FakeVenue;
let client: Client;
const streams: Stream[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  venue = fakeVenue();
  client = new Client(venue.options());
});
afterEach(() => {
  for (const stream of streams.splice(0)) stream.close();
  vi.useRealTimers();
});

const advance = (ms = 0) => vi.advanceTimersByTimeAsync(ms);

/** How a call ends, once time goes on. */
async function ended<T>(call: Promise<T>, ms = 60_000): Promise<T | Error> {
  const result = call.catch((error: Error) => error);
  await advance(ms);
  return result;
}

async function open(): Promise<Stream> {
  const stream = client.accountStream();
  streams.push(stream);
  const ready = stream.ready();
  await advance(1_000);
  await ready;
  return stream;
}

describe("the word of the service", () => {
  it.each(CASES.answers)("$name: $problem", async ({ type, body, problem }) => {
    venue.instead = () => new Response(body, { status: 409, headers: { "content-type": type } });
    const error = await ended(client.rfq.resetProtection());
    expect(error).toBeInstanceOf(problem ? Problem : NoAnswer);
    expect(error).toMatchObject({ status: 409 });
    if (!problem) expect((error as Error).message).toContain(body.slice(0, 20));
  });

  const { statuses, type, body } = CASES.pages;
  const page = (status: number, headers: Record<string, string> = {}) =>
    new Response(body, { status, headers: { "content-type": type, ...headers } });

  it.each(statuses)(
    "is no page with %i, whether the call had its effect or not",
    async (status) => {
      const keys = () => venue.received.map(({ body: sent }) => (sent as Named).idempotency_key);
      let pages = 1;
      venue.instead = (path) => (path === "/rfq/request" && pages-- > 0 ? page(status) : undefined);
      expect(await ended(client.rfq.request(TERMS))).toMatchObject({ quote_id: "q" });
      expect(keys()).toHaveLength(2);
      expect(new Set(keys()).size).toBe(1);
      pages = 9;
      const lost = await ended(client.rfq.request(TERMS));
      expect(lost).toBeInstanceOf(NoAnswer);
      const text = expect.stringMatching(`${status}.*<title>Blocked</title>`) as string;
      expect(lost).toMatchObject({ status, message: text });
      expect(keys()).toHaveLength(7);
      venue.instead = () => page(status);
      const once = await ended(client.custody.createDepositAddress());
      expect(once).toBeInstanceOf(NoAnswer);
      expect(keys()).toHaveLength(8);
    },
  );

  it.each(statuses)("does not end a stream by a page with %i", async (status) => {
    let pages = 20;
    const attempts: unknown[] = [];
    venue.instead = () => (pages-- > 0 ? page(status) : undefined);
    const stream = client.accountStream({ onDisconnect: ({ error }) => attempts.push(error) });
    streams.push(stream);
    expect(await ended(stream.ready(), 120_000)).toBeUndefined();
    expect(attempts.length).toBeGreaterThan(2);
    for (const error of attempts) expect(error).toBeInstanceOf(NoAnswer);
    // The upgrade itself: the socket ends before hello, and a request finds a page.
    const [socket] = venue.sockets;
    venue.instead = (path) => (path.startsWith("/auth/") ? undefined : page(status));
    socket?.drop();
    await advance(20_000);
    venue.sockets.at(-1)?.drop();
    await advance(20_000);
    expect(venue.sockets.length).toBeGreaterThan(1);
  });

  it.each(CASES.retry_after)("a 429 page keeps its Retry-After: $header", async (given) => {
    let pages = 1;
    const at: number[] = [];
    venue.instead = (path) => {
      if (path !== "/rfq/request") return undefined;
      at.push(performance.now());
      return pages-- > 0 ? page(429, { "retry-after": given.header }) : undefined;
    };
    const result = await ended(client.rfq.request(TERMS));
    expect(at).toHaveLength(given.repeated ? 2 : 1);
    if (given.repeated)
      expect((at[1] ?? 0) - (at[0] ?? 0)).toBeGreaterThanOrEqual((given.waits_secs ?? 0) * 1_000);
    else expect(result).toMatchObject({ status: 429, retryAfterSecs: given.waits_secs });
  });
});

type Named = { idempotency_key?: string };

type Quoted = (options?: { maxAgeMs?: number }, not_after?: Date) => Promise<unknown>;
const one =
  (of: Stream | Client["rfq"]): Quoted =>
  (options, not_after) =>
    of.quote({ ...ORDER, ...(not_after && { not_after }) }, options);
const many =
  (of: Stream | Client["rfq"]): Quoted =>
  (options, not_after) =>
    of.quoteMany({ quotes: [ORDER], ...(not_after && { not_after }) }, options);
const WAYS: [string, () => Promise<Quoted>][] = [
  ["REST", async () => one(client.rfq)],
  ["a call of several", async () => many(client.rfq)],
  ["a socket", async () => one(await open())],
  ["several on a socket", async () => many(await open())],
];
const isQuote = (path: string) => path.startsWith("/rfq/quote") || path === "socket";
const quotes = () => venue.received.filter(({ path }) => isQuote(path));
const leftMs = () => Date.parse(quotes().at(-1)?.body.not_after ?? "") - venue.now();
const refused = (answer: unknown) => JSON.stringify(answer).includes("deadline_passed");

describe.each(WAYS)("time, by %s", (_, use) => {
  it.each(CASES.wall_clock_steps_ms)("does not follow a wall clock %i ms off", async (step) => {
    // At first wrong, and then corrected.
    vi.setSystemTime(Date.now() + step);
    client = new Client(venue.options());
    const quote = await use();
    for (const now of [Date.now(), Date.now() - step, Date.now() + step]) {
      vi.setSystemTime(now);
      expect(refused(await ended(quote(), 10))).toBe(false);
      expect(leftMs()).toBeGreaterThan(900);
      expect(leftMs()).toBeLessThanOrEqual(1_001);
    }
  });

  it.each(CASES.wrong_anchors)("is compared again if $name", async (given) => {
    const quote = await use();
    await ended(quote(), 10);
    const instant = given.given ? [new Date(venue.now() + 1_000)] : [];
    venue.aheadMs += given.step_ms;
    const before = quotes().length;
    expect(refused(await ended(quote({}, ...instant), 500))).toBe(!given.placed);
    expect(quotes().length - before).toBe(given.sent);
    expect(refused(await ended(quote(), 500))).toBe(false);
    expect(quotes().length - before).toBe(given.sent + 1);
  });

  it("is compared again every ten minutes", async () => {
    const quote = await use();
    await ended(quote(), 10);
    for (const drift of [200, -400]) {
      venue.aheadMs += drift;
      await advance(601_000);
      await ended(quote(), 500);
      expect(Math.abs(leftMs() - 500)).toBeLessThan(20);
    }
    expect(venue.paths().filter((path) => path === "/time").length).toBeLessThan(8);
  });
});

it("a quote whose machine slept meanwhile is not sent again", async () => {
  await ended(client.rfq.quote(ORDER), 10);
  // The monotonic clock stood still.
  venue.instead = (path) => {
    if (path !== "/rfq/quote") return undefined;
    venue.aheadMs += 3_600_000;
    vi.setSystemTime(Date.now() + 3_600_000);
    return refusal(venue.deadlinePassed());
  };
  expect(await ended(client.rfq.quote(ORDER))).toMatchObject({ code: "deadline_passed" });
  expect(quotes()).toHaveLength(2);
});

describe("reconnecting", () => {
  it.each(CASES.reconnections)("counts attempts after $name", async ({ held_secs, attempts }) => {
    const seen: number[] = [];
    const stream = client.accountStream({ onDisconnect: ({ attempt }) => seen.push(attempt) });
    streams.push(stream);
    void stream.ready().catch(() => {});
    for (const [index, secs] of held_secs.entries()) {
      while (venue.sockets.length <= index) await advance(1);
      await advance(secs * 1_000);
      venue.sockets[index]?.drop();
      await advance();
    }
    expect(seen).toEqual(attempts);
  });

  it("needs fewer tickets than a day has, while each connection is cut at once", () => {
    let attempts = 0;
    for (let ms = 0; ms < 86_400_000; attempts++) ms += reconnectDelay(null, attempts, () => 0.5);
    expect(attempts).toBeLessThan(CASES.tickets_per_day);
  });
});

describe.each(CASES.bursts)("200 quotes at once, with $name", (burst) => {
  const { limits, most, answer_ms, max_age_ms: maxAgeMs, all } = burst;

  async function place(calls: (() => Promise<unknown>)[]) {
    venue.limits = limits;
    venue.answerMs = answer_ms;
    const results = Promise.all(calls.map((call) => call().catch((error: unknown) => error)));
    await advance(120_000);
    const ends = await results;
    const late = ends.filter((end) => end instanceof NotSent);
    const placed = ends.filter((end) => !(end instanceof Error));
    expect(ends.filter((end) => end instanceof Error && !(end instanceof NotSent))).toEqual([]);
    expect(late.length > 0).toBe(!all);
    expect(placed.length).toBeGreaterThan(0);
    expect(quotes()).toHaveLength(placed.length);
    return venue.mostUnanswered;
  }
  const times = (count: number, call: () => Promise<unknown>) =>
    Array.from({ length: count }, () => call);

  it("a socket", async () => {
    const stream = await open();
    expect(await place(times(200, () => stream.quote(ORDER, { maxAgeMs })))).toBe(most.socket);
  });

  it("REST", async () => {
    expect(await place(times(200, () => client.rfq.quote(ORDER, { maxAgeMs })))).toBe(most.rest);
  });

  it("several a call, by REST and a socket", async () => {
    const stream = await open();
    const body = { quotes: [ORDER] };
    const calls = [
      ...times(20, () => client.rfq.quoteMany(body, { maxAgeMs })),
      ...times(20, () => stream.quoteMany(body, { maxAgeMs })),
    ];
    expect(await place(calls)).toBe(most.several);
  });

  it("three sockets and REST", async () => {
    const three = [await open(), await open(), await open()];
    const calls = [
      ...three.flatMap((stream) => times(50, () => stream.quote(ORDER, { maxAgeMs }))),
      ...times(50, () => client.rfq.quote(ORDER, { maxAgeMs })),
    ];
    expect(await place(calls)).toBe(most.rest);
  });
});

describe("a queue of commands", () => {
  it("gives the place of a command to the next one only when the service has answered", async () => {
    const stream = await open();
    venue.answerMs = 5_000;
    const left = Array.from({ length: 30 }, () =>
      stream.accept({ quote_id: "q" }, { timeoutMs: 100 }),
    );
    const ends = Promise.allSettled(left);
    await advance(4_000);
    expect((await ends).filter(({ status }) => status === "rejected")).toHaveLength(30);
    expect(venue.mostUnanswered).toBe(8);
    const next = stream.accept({ quote_id: "q" });
    await advance(500);
    expect(venue.mostUnanswered).toBe(8);
    expect(await ended(next)).toMatchObject({ quote_id: "q" });
  });

  it("leaves no place taken by a lost connection, or by a caller who went away", async () => {
    const stream = await open();
    venue.answerMs = 60_000;
    const lost = Array.from({ length: 20 }, () => stream.quote(ORDER));
    const stop = new AbortController();
    const { signal } = stop;
    const left = Array.from({ length: 40 }, () => client.rfq.accept({ quote_id: "q" }, { signal }));
    const ends = Promise.allSettled([...lost, ...left]);
    await advance(100);
    stop.abort(new Error("stopped"));
    venue.sockets[0]?.drop();
    await advance(40_000);
    expect((await ends).every(({ status }) => status === "rejected")).toBe(true);
    venue.answerMs = 0;
    const burst = Array.from({ length: 60 }, () => client.rfq.quote(ORDER, { maxAgeMs: 5_000 }));
    expect(await ended(Promise.all(burst))).toHaveLength(60);
  });

  it("begins the deadline with the call, not with its turn", async () => {
    const stream = await open();
    venue.answerMs = 300;
    const calledAt = venue.now();
    const ends = Promise.allSettled(Array.from({ length: 30 }, () => stream.quote(ORDER)));
    await advance(10_000);
    await ends;
    for (const { body } of quotes())
      expect(Math.abs(Date.parse(body.not_after ?? "") - calledAt - 1_000)).toBeLessThan(5);
  });
});

it.each(["rfq.test", "localhost:8787", "ws://rfq.test", "", "http://"])(
  "a base URL without its scheme is an error at once: %s",
  (baseUrl) => {
    expect(() => new Client({ baseUrl })).toThrow("http");
  },
);

it.each([["key", "secret"], "token", null, { apiKey: "x" }, 7].map((given) => [given]))(
  "a credential of another form is an error at once: %j",
  (credential) => {
    expect(() => new Client({ ...venue.options(), credential: credential as never })).toThrow();
  },
);
