import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  NoAnswer,
  Problem,
  Stream,
  type StreamMessage,
  type StreamOptions,
  type WebSocketLike,
} from "../../packages/client/src/index.ts";
import { ServerClock } from "../../packages/client/src/server-clock.ts";
import { isTransient, reconnectDelay } from "../../packages/client/src/stream-retry.ts";

type Listener = (event: { data?: unknown; code?: number; reason?: string }) => void;

/** A socket whose other end is the test. */
class FakeSocket implements WebSocketLike {
  static readonly all: FakeSocket[] = [];
  readonly url: string;
  readonly sent: string[] = [];
  closed = false;
  readonly #listeners: Record<string, Listener[]> = {};

  constructor(url: string) {
    this.url = url;
    FakeSocket.all.push(this);
  }
  send(text: string): void {
    this.sent.push(text);
  }
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.#emit("close", { code: 1000, reason: "" });
  }
  addEventListener(type: string, listener: Listener): void {
    (this.#listeners[type] ??= []).push(listener);
  }
  deliver(message: object): void {
    this.#emit("message", { data: JSON.stringify({ stream: "s", at: "", data: {}, ...message }) });
  }
  deliverText(data: string): void {
    this.#emit("message", { data });
  }
  drop(): void {
    this.closed = true;
    this.#emit("close", { code: 1006, reason: "gone" });
  }
  #emit(type: string, event: Parameters<Listener>[0]): void {
    for (const listener of this.#listeners[type] ?? []) listener(event);
  }
}

let tickets = 0;
const streams: Stream[] = [];

function create(options: Partial<StreamOptions> = {}): Stream {
  const stream = new Stream({
    url: "ws://service/account/stream",
    query: {},
    ticket: async () => ({ ticket: `ticket-${++tickets}` }),
    webSocket: FakeSocket,
    ...options,
  });
  streams.push(stream);
  return stream;
}

function open(options: Partial<StreamOptions> = {}): {
  stream: Stream;
  delivered: StreamMessage[];
} {
  const stream = create(options);
  const delivered: StreamMessage[] = [];
  void (async () => {
    for await (const message of stream) delivered.push(message);
  })().catch(() => {});
  return { stream, delivered };
}

/** Advances the fake timers and lets promises settle. */
const advance = (ms = 0) => vi.advanceTimersByTimeAsync(ms);
const socket = (index: number) =>
  FakeSocket.all[index] ?? expect.fail(`only ${FakeSocket.all.length} sockets were opened`);
const seqs = (delivered: StreamMessage[]) =>
  delivered.filter(({ type }) => type === "account.notice").map(({ seq }) => seq);

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.all.length = 0;
  tickets = 0;
});
afterEach(() => {
  for (const stream of streams.splice(0)) stream.close();
  vi.useRealTimers();
});

describe("Stream", () => {
  it("reconnects with since and a new ticket, without duplicates", async () => {
    const { delivered } = open();
    await advance();
    socket(0).deliver({ type: "hello", seq: 4 });
    socket(0).deliver({ type: "account.notice", seq: 5 });
    socket(0).drop();
    await advance(2_000);
    expect(new URL(socket(0).url).searchParams.get("since")).toBeNull();
    expect(Object.fromEntries(new URL(socket(1).url).searchParams)).toEqual({
      since: "5",
      ticket: "ticket-2",
    });
    socket(1).deliver({ type: "hello", seq: 6 });
    socket(1).deliver({ type: "account.notice", seq: 5 });
    socket(1).deliver({ type: "account.notice", seq: 6 });
    await advance();
    expect(seqs(delivered)).toEqual([5, 6]);
  });

  it("pings early when it has received much, so that it counts as a reader", async () => {
    open({ since: 1 });
    await advance();
    socket(0).deliver({ type: "hello", seq: 1 });
    await advance(1_000);
    for (let n = 0; n < 3; n++) socket(0).deliverText("x".repeat(400_000));
    expect(socket(0).sent).toEqual(["ping", "ping"]);
    socket(0).deliverText("x".repeat(400_000));
    expect(socket(0).sent).toEqual(["ping", "ping"]);
  });

  it("reconnects when a gap stays open for 5 s", async () => {
    open({ since: 1 });
    await advance();
    socket(0).deliver({ type: "hello", seq: 1 });
    await advance(1_000);
    expect(socket(0).sent).toEqual(["ping"]);
    socket(0).deliver({ type: "pong", seq: 3 });
    await advance(4_000);
    expect(FakeSocket.all).toHaveLength(1);
    await advance(6_000);
    expect(new URL(socket(1).url).searchParams.get("since")).toBe("1");
  });

  it("keeps the connection when a gap is filled in time", async () => {
    const { delivered } = open({ since: 1 });
    await advance();
    socket(0).deliver({ type: "hello", seq: 3 });
    socket(0).deliver({ type: "account.notice", seq: 3 });
    await advance(3_000);
    expect(seqs(delivered)).toEqual([]);
    socket(0).deliver({ type: "account.notice", seq: 2 });
    for (let second = 0; second < 12; second++) {
      socket(0).deliver({ type: "pong", seq: 3 });
      await advance(1_000);
    }
    expect(seqs(delivered)).toEqual([2, 3]);
    expect(FakeSocket.all).toHaveLength(1);
  });

  it("ends with the reason of its signal", async () => {
    const stop = new AbortController();
    const stream = create({ signal: stop.signal });
    const loop = (async () => {
      for await (const message of stream) void message;
    })();
    const command = stream.accept({ quote_id: "q" });
    stop.abort(new Error("enough"));
    await expect(loop).rejects.toThrow("enough");
    await expect(command).rejects.toThrow("enough");
    await expect(create({ signal: stop.signal }).ready()).rejects.toThrow("enough");
  });

  it("closes a silent connection", async () => {
    open();
    await advance();
    socket(0).deliver({ type: "hello", seq: 0 });
    await advance(20_000);
    expect(socket(0).closed).toBe(true);
    expect(FakeSocket.all.length).toBeGreaterThan(1);
  });

  it("ignores frames of a connection that it has given up", async () => {
    const { delivered } = open({ since: 1 });
    await advance();
    socket(0).deliver({ type: "hello", seq: 1 });
    await advance(40_000);
    const { length } = FakeSocket.all;
    expect(length).toBeGreaterThan(1);
    // The package ws delivers what arrived before the other end's close frame.
    socket(0).deliver({ type: "account.notice", seq: 2, data: { kind: "late" } });
    socket(length - 1).deliver({ type: "account.notice", seq: 2, data: { kind: "again" } });
    await advance();
    expect(delivered.slice(1)).toMatchObject([{ data: { kind: "again" } }]);
  });

  it("repeats a pending command after reconnecting, with its idempotency key", async () => {
    const { stream } = open();
    await advance();
    socket(0).deliver({ type: "hello", seq: 0 });
    const terms = { request_id: "r", price: 650_000 };
    const quoting = stream.quote(terms, { maxAgeMs: 5_000 });
    await advance();
    const frame = JSON.parse(socket(0).sent[0] ?? "") as {
      id: string;
      op: string;
      idempotency_key: string;
      not_after: string;
    };
    expect(frame).toMatchObject({ op: "quote", request_id: "r", price: 650_000 });
    expect(frame.idempotency_key).toMatch(/^[0-9a-f-]{36}$/);
    socket(0).drop();
    await advance(2_000);
    socket(1).deliver({ type: "hello", seq: 0 });
    const again = JSON.parse(socket(1).sent[0] ?? "") as typeof frame;
    expect({ ...again, not_after: "" }).toEqual({ ...frame, not_after: "" });
    expect(Math.abs(Date.parse(again.not_after) - Date.parse(frame.not_after))).toBeLessThan(50);
    socket(1).deliver({
      type: "result",
      id: frame.id,
      data: { quote_id: "q", usdc_amount: "0x10" },
    });
    expect(await quoting).toMatchObject({ quote_id: "q", usdc_amount: 16n });
  });

  it("sets the deadline of a quote by the service's clock", async () => {
    const { stream } = open();
    await advance();
    const ahead = 3_600_000;
    const server_time = new Date(Date.now() + ahead).toISOString();
    socket(0).deliver({ type: "hello", seq: 0, data: { server_time } });
    void stream.quote({ request_id: "r", price: 1 }).catch(() => {});
    await advance();
    const { not_after } = JSON.parse(socket(0).sent[0] ?? "") as { not_after: string };
    const leftMs = Date.parse(not_after) - ahead - Date.now();
    expect(leftMs).toBeGreaterThan(900);
    expect(leftMs).toBeLessThanOrEqual(1_000);
  });

  it("does not shorten the deadline of a quote by the delay of hello", async () => {
    const ahead = 3_600_000;
    const clock = new ServerClock(Date.now, async () => Date.now() + ahead);
    await clock.fresh(Infinity);
    const { stream } = open({ clock });
    await advance();
    const server_time = new Date(Date.now() + ahead - 5_000).toISOString();
    socket(0).deliver({ type: "hello", seq: 0, data: { server_time } });
    void stream.quote({ request_id: "r", price: 1 }).catch(() => {});
    await advance();
    const { not_after } = JSON.parse(socket(0).sent[0] ?? "") as { not_after: string };
    expect(Date.parse(not_after) - ahead - Date.now()).toBeGreaterThan(900);
  });

  it("does not repeat a quote after its deadline", async () => {
    const { stream } = open();
    await advance();
    socket(0).deliver({ type: "hello", seq: 0 });
    const quoting = stream.quote({ request_id: "r", price: 1 });
    const failed = expect(quoting).rejects.toThrow("its deadline has passed");
    await advance();
    expect(socket(0).sent).toHaveLength(1);
    socket(0).drop();
    await advance(2_000);
    socket(1).deliver({ type: "hello", seq: 0 });
    await failed;
    expect(socket(1).sent).toEqual([]);
  });

  it("ends a command when its signal is aborted, or after timeoutMs", async () => {
    const { stream } = open();
    await advance();
    socket(0).deliver({ type: "hello", seq: 0 });
    const stop = new AbortController();
    const aborted = expect(
      stream.accept({ quote_id: "q" }, { signal: stop.signal }),
    ).rejects.toThrow("stopped by the caller");
    const late = expect(stream.cancelQuote({ quote_id: "q" }, { timeoutMs: 100 })).rejects.toThrow(
      "no result in time",
    );
    stop.abort(new Error("stopped by the caller"));
    await aborted;
    await advance(200);
    await late;
  });

  it("waits for the result of a command without a timeout", async () => {
    const { stream } = open();
    await advance();
    socket(0).deliver({ type: "hello", seq: 0 });
    const accepting = stream.accept({ quote_id: "q" }, { timeoutMs: Infinity });
    await advance(5_000);
    const { id } = JSON.parse(socket(0).sent[0] ?? "") as { id: string };
    socket(0).deliver({ type: "result", id, data: { match_id: "m" } });
    expect(await accepting).toEqual({ match_id: "m" });
  });

  it("sends only the fields of the command from a whole record", async () => {
    const { stream } = open();
    await advance();
    socket(0).deliver({ type: "hello", seq: 0 });
    const record = { quote_id: "q", request_id: "r", price: 1, status: "open", usdc_amount: 4n };
    void Promise.allSettled([
      stream.accept(record),
      stream.cancelQuote(record),
      stream.quote(record),
    ]);
    await advance();
    const frames = socket(0).sent.map((text) => Object.keys(JSON.parse(text) as object));
    expect(frames).toEqual([
      ["id", "op", "quote_id"],
      ["id", "op", "quote_id"],
      ["id", "op", "request_id", "price", "idempotency_key", "not_after"],
    ]);
  });

  it("skips unreadable frames and recovers what they contained", async () => {
    const { stream, delivered } = open({ since: 1 });
    await advance();
    socket(0).deliver({ type: "hello", seq: 3 });
    socket(0).deliverText("<html>");
    socket(0).deliverText("null");
    socket(0).deliver({ type: "something.newer", seq: undefined });
    socket(0).deliver({ type: "account.notice", seq: 3 });
    expect(stream.since).toBe(1);
    for (let second = 0; second < 10 && FakeSocket.all.length === 1; second++) await advance(1_000);
    expect(new URL(socket(1).url).searchParams.get("since")).toBe("1");
    socket(1).deliver({ type: "hello", seq: 3 });
    socket(1).deliver({ type: "account.notice", seq: 2, data: { fee: "none" } });
    socket(1).deliver({ type: "account.notice", seq: 3 });
    await advance();
    expect(seqs(delivered)).toEqual([2, 3]);
  });

  it("rejects a second loop", async () => {
    const { stream } = open();
    await advance();
    await expect(stream[Symbol.asyncIterator]().next()).rejects.toThrow("one loop");
  });

  it("delivers each message once across reconnections, duplicates and reordering", async () => {
    const { delivered } = open({ since: 0 });
    await advance();
    for (let round = 0; round < 20; round++) {
      const now = FakeSocket.all.at(-1)!;
      const since = Number(new URL(now.url).searchParams.get("since"));
      now.deliver({ type: "hello", seq: 100 });
      for (const ahead of [1, 3, 2, 2, 0, 5])
        now.deliver({ type: "account.notice", seq: since + ahead });
      now.drop();
      await advance(11_000);
    }
    expect(seqs(delivered)).toEqual(Array.from({ length: 60 }, (_, index) => index + 1));
  });

  /** A stream whose messages nobody reads, with this many of them. */
  async function unread(count: number): Promise<Stream> {
    const stream = create();
    void stream.ready();
    await advance();
    socket(0).deliver({ type: "hello", seq: 0 });
    for (let seq = 1; seq <= count; seq++) socket(0).deliver({ type: "account.notice", seq });
    return stream;
  }

  it("carries commands without a loop, however many messages arrive", async () => {
    const stream = await unread(10_001);
    expect(socket(0).closed).toBe(false);
    const accepting = stream.accept({ quote_id: "q" });
    const { id } = JSON.parse(socket(0).sent[0] ?? "") as { id: string };
    const late = stream[Symbol.asyncIterator]().next();
    await expect(late).rejects.toThrow("began too late");
    socket(0).deliver({ type: "result", id, data: { match_id: "m" } });
    expect(await accepting).toEqual({ match_id: "m" });
  });

  it("reconnects without a loop, and keeps what a later loop reads", async () => {
    const stream = await unread(9_000);
    socket(0).drop();
    await advance(2_000);
    expect(FakeSocket.all).toHaveLength(2);
    const messages = stream[Symbol.asyncIterator]();
    expect((await messages.next()).value).toMatchObject({ type: "hello" });
    expect((await messages.next()).value).toMatchObject({ seq: 1 });
  });

  it("closes the connection of a loop that is far behind, until it has caught up", async () => {
    const stream = await unread(1);
    const messages = stream[Symbol.asyncIterator]();
    await messages.next();
    for (let seq = 2; seq <= 10_001; seq++) socket(0).deliver({ type: "account.notice", seq });
    expect(socket(0).closed).toBe(true);
    await advance(60_000);
    expect(FakeSocket.all).toHaveLength(1);
    for (let n = 0; n < 5_002; n++) await messages.next();
    await advance(2_000);
    expect(FakeSocket.all).toHaveLength(2);
  });

  it("throws the problem of a rejected command", async () => {
    const { stream } = open();
    await advance();
    socket(0).deliver({ type: "hello", seq: 0 });
    const accepting = stream.accept({ quote_id: "q" }).catch((error: unknown) => error);
    await advance();
    const { id } = JSON.parse(socket(0).sent[0] ?? "") as { id: string };
    socket(0).deliver({ type: "error", id, data: { code: "quote_expired", status: 409 } });
    expect(await accepting).toMatchObject({ code: "quote_expired", status: 409 });
  });

  it.each([
    { code: "rate_limited", status: 429 },
    { code: "unavailable", status: 503, outcome: "none" },
  ])("reports a command that may have taken effect before a reconnection: $code", async (data) => {
    const { stream } = open();
    await advance();
    socket(0).deliver({ type: "hello", seq: 0 });
    const accepting = stream.accept({ quote_id: "q" }).catch((error: unknown) => error);
    await advance();
    const { id } = JSON.parse(socket(0).sent[0] ?? "") as { id: string };
    socket(0).drop();
    await advance(2_000);
    socket(1).deliver({ type: "hello", seq: 0 });
    socket(1).deliver({ type: "error", id, data });
    const error = await accepting;
    expect(error).toBeInstanceOf(NoAnswer);
    expect(error).toMatchObject({ cause: { code: data.code } });
  });

  it("ends with the problem when the ticket is rejected for good", async () => {
    const rejection = new Problem({ code: "api_key_revoked" }, { status: 401 });
    const { stream } = open({ ticket: () => Promise.reject(rejection) });
    await expect(stream.ready()).rejects.toBe(rejection);
    await expect(stream.quote({ request_id: "r", price: 1 })).rejects.toThrow("closed");
    expect(FakeSocket.all).toHaveLength(0);
  });

  it("retries while tickets are unavailable", async () => {
    let calls = 0;
    const ticket = async () => {
      if (++calls < 3) throw new Problem({ code: "unavailable" }, { status: 503 });
      return { ticket: "late" };
    };
    const { stream } = open({ ticket });
    await advance(10_000);
    socket(0).deliver({ type: "hello", seq: 0 });
    await stream.ready();
    expect(calls).toBe(3);
  });

  it("finds the reason for a rejected socket only before hello", async () => {
    const rejection = new Problem({ code: "ip_not_allowed" }, { status: 403 });
    const whyRefused = vi.fn(() => Promise.reject(rejection));
    const { stream, delivered } = open({ whyRefused });
    await advance();
    socket(0).deliver({ type: "hello", seq: 0 });
    const quoting = stream.quote({ request_id: "r", price: 1 }).catch((error: unknown) => error);
    socket(0).drop();
    await advance(1_000);
    expect(whyRefused).toHaveBeenCalledTimes(0);
    socket(1).drop();
    await advance(60_000);
    expect(whyRefused).toHaveBeenCalledTimes(1);
    expect(await quoting).toBe(rejection);
    expect(FakeSocket.all).toHaveLength(2);
    expect(delivered.map(({ type }) => type)).toEqual(["hello"]);
  });

  it("honours Retry-After before reconnecting", async () => {
    const busy = new Problem({ code: "unavailable" }, { status: 503, retryAfterSecs: 40 });
    const onDisconnect = vi.fn();
    open({ whyRefused: () => Promise.reject(busy), onDisconnect });
    await advance();
    socket(0).drop();
    await advance(39_900);
    expect(onDisconnect.mock.calls).toEqual([
      [{ code: 1006, reason: "gone", attempt: 1, error: busy }],
    ]);
    expect(FakeSocket.all).toHaveLength(1);
    await advance(700);
    expect(new URL(socket(1).url).searchParams.get("ticket")).toBe("ticket-2");
  });

  it("calls onDisconnect for each attempt without a ticket", async () => {
    const errors = [
      new NoAnswer("ticket", "connection rejection"),
      new Problem({ code: "rate_limited" }, { status: 429, retryAfterSecs: 60 }),
    ];
    const left = [...errors];
    const onDisconnect = vi.fn();
    open({
      onDisconnect,
      ticket: async () => ({
        ticket: await Promise.reject(left.shift() ?? new Error("too early")),
      }),
    });
    await advance(59_000);
    expect(onDisconnect.mock.calls.map(([event]) => event as unknown)).toEqual(
      errors.map((error, index) => ({
        code: 1006,
        reason: "no ticket",
        attempt: index + 1,
        error,
      })),
    );
  });

  it("sends nothing more after close", async () => {
    const whyRefused = vi.fn(async () => {});
    const { stream } = open({ whyRefused });
    await advance();
    stream.close();
    await advance(60_000);
    expect(whyRefused).toHaveBeenCalledTimes(0);
    expect(tickets).toBe(1);
  });

  it("rejects an invalid since at once", () => {
    for (const since of [-1, 1.5, Number.NaN, 2 ** 53])
      expect(() => open({ since })).toThrow(RangeError);
  });
});

describe("reconnecting", () => {
  const problem = (status: number, retryAfterSecs: number | null = null) =>
    new Problem({}, { status, retryAfterSecs });

  it("retries transient errors only", () => {
    const transient = [408, 425, 429, 500, 502, 503, 504].map((status) => problem(status));
    expect([...transient, new NoAnswer("x", "lost")].every((error) => isTransient(error))).toBe(
      true,
    );
    expect([302, 400, 401, 403, 404, 410].map((status) => isTransient(problem(status)))).toEqual(
      Array(6).fill(false),
    );
    expect(isTransient(new TypeError("a bug"))).toBe(false);
  });

  it("waits a growing random time and at least Retry-After", () => {
    expect(
      [1, 2, 3, 20, 101, 5_000].map((attempt) => reconnectDelay(null, attempt, () => 0.5)),
    ).toEqual([250, 500, 1_000, 5_000, 30_000, 30_000]);
    expect(reconnectDelay(problem(503, 40), 1, () => 0)).toBe(40_000);
    expect(reconnectDelay(problem(429, 40), 1, () => 0.5)).toBe(40_250);
    expect(reconnectDelay(problem(503, 1e9), 1, () => 0)).toBe(3_600_000);
    const afterLost = new NoAnswer("ticket", "lost", problem(429, 40));
    expect(reconnectDelay(afterLost, 1, () => 0)).toBe(40_000);
  });
});
