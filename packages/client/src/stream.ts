/**
 * A stream that stays: it fetches its own tickets, notices silence and gaps, reconnects where it was, and shows every
 * message once and in order. It ends when you close it, or when the service refuses it for a reason that will not pass.
 */
import { deferred } from "./deferred.ts";
import { Inbox } from "./inbox.ts";
import { NoAnswer, Problem } from "./problem.ts";
import type { ControlMessage, StreamMessage } from "./stream-messages.ts";
import { StreamOrder } from "./stream-order.ts";
import { mayPass, reconnectDelay } from "./stream-retry.ts";
import { sleep } from "./transport.ts";
import type { Match, Quote } from "./types.ts";
import { decode } from "./wire.ts";

/** `type` is not used; an event of any runtime has it, which makes each a SocketEvent for the compiler. */
type SocketEvent = {
  readonly type?: string;
  readonly data?: unknown;
  readonly code?: number;
  readonly reason?: string;
};

/** What is used of a WebSocket. */
export type WebSocketLike = {
  send(text: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(
    type: "open" | "message" | "close" | "error",
    listener: (event: SocketEvent) => void,
  ): void;
};

/** What a stream is made of; `Client` fills in all but `since` and `onDisconnect`. */
export type StreamOptions = {
  /** `wss://…/rfq/stream` or `wss://…/account/stream`. */
  url: string;
  /** `venue_id` and `asset_id` of /rfq/stream. */
  query: Record<string, string>;
  /** Asked for a fresh one before each connection. */
  ticket: () => Promise<{ ticket: string }>;
  /** Asked after a socket without a hello, which itself never tells why: throws the reason, if the service names one. */
  whyRefused?: (() => Promise<void>) | undefined;
  /** The number after which to go on, from an earlier run; a snapshot, or only what is new, when left out. */
  since?: number | undefined;
  /**
   * Told each time that the connection is lost or could not be made, before the next attempt. `error`: why, if the service
   * told or could not be asked; `attempt` counts from the last hello. Close the stream here when it has tried long enough.
   */
  onDisconnect?:
    | ((event: {
        code: number;
        reason: string;
        attempt: number;
        error: Problem | NoAnswer | null;
      }) => void)
    | undefined;
  /** The runtime's own when left out. */
  webSocket?: (new (url: string) => WebSocketLike) | undefined;
};

/** How a connection ended. `greeted`: it had said hello. */
type Ended = { code: number; reason: string; greeted: boolean };

type Command = {
  frame: string;
  resolve(data: unknown): void;
  reject(error: unknown): void;
  timer: ReturnType<typeof setTimeout>;
};

const PING_INTERVAL_MS = 15_000;
/** A connection that says nothing for so long after a ping is dead. */
const SILENCE_MS = 10_000;
/** The time the service has to fill a gap that a pong showed. */
const GAP_MS = 5_000;
const HELLO_TIMEOUT_MS = 15_000;
const COMMAND_TIMEOUT_MS = 30_000;

/**
 * The messages of a stream, each once and in order, over as many connections as it takes. Made by `client.bookStream`,
 * `client.venueStream` and `client.accountStream`. It has one reader at a time.
 *
 * @example
 * ```ts
 * const stream = client.accountStream({ onDisconnect: ({ code, reason }) => console.log("lost the connection", code, reason) });
 * for await (const message of stream) {
 *   if (message.type === "deposit.credited") console.log(message.data.amount);
 *   // What was missed is gone from the log: read it by REST.
 *   if (message.type === "resync") console.log(await client.custody.usdcBalance());
 * }
 * ```
 */
export class Stream implements AsyncIterable<StreamMessage> {
  readonly #options: StreamOptions;
  readonly #order: StreamOrder;
  readonly #inbox = new Inbox<StreamMessage>();
  readonly #commands = new Map<string, Command>();
  readonly #stop = new AbortController();
  #socket: WebSocketLike | null = null;
  /** The socket has said hello. */
  #open = false;
  #running = false;
  #reading = false;
  readonly #ready = deferred<void>();

  constructor(options: StreamOptions) {
    this.#options = options;
    const { since } = options;
    // The service would refuse each upgrade with it.
    if (since !== undefined && !(Number.isSafeInteger(since) && since >= 0))
      throw new RangeError("`since` is the number of a message: an integer, 0 or more.");
    this.#order = new StreamOrder({ hasSnapshot: !options.url.endsWith("/account/stream"), since });
    // Someone who never asks for `ready` must not get an unhandled rejection from it.
    this.#ready.promise.catch(() => {});
  }

  /**
   * Where this stream stands, the number of the last message that arrived in order: give it as `since` to the next run, once
   * you have read what has arrived. Null while the first snapshot is awaited.
   *
   * @example
   * ```ts
   * stream.close();
   * const next = client.accountStream(stream.since === null ? {} : { since: stream.since });
   * ```
   */
  get since(): number | null {
    return this.#order.since;
  }

  /**
   * Connects, and resolves when the service has said hello. Throws the `Problem` that ends the stream when the service refuses
   * ticket or socket for good: `scope_missing`, `ip_not_allowed`, `account_frozen`, `api_key_revoked`, `invalid_request` …
   * It tries on, and `onDisconnect` hears of it, while the service cannot be reached, asks for patience (429, 5xx), or refuses
   * the socket without a reason that HTTPS tells too: `socket_limit`, or a proxy that lets no websocket pass.
   *
   * @example
   * ```ts
   * await stream.ready();
   * ```
   */
  ready(): Promise<void> {
    this.#start();
    return this.#ready.promise;
  }

  /**
   * Messages until `close`, or until the stream ends with a `Problem`. Leaving the loop closes the stream.
   *
   * @example
   * ```ts
   * for await (const message of stream) {
   *   if (message.type === "match.created") break;
   * }
   * ```
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<StreamMessage, void, undefined> {
    if (this.#reading)
      throw new Error("A stream has one reader at a time: each message is shown once.");
    this.#reading = true;
    this.#start();
    try {
      for (;;) {
        const message = await this.#inbox.next();
        if (message === null) return;
        yield message;
      }
    } finally {
      this.#reading = false;
      this.close();
    }
  }

  /**
   * A firm quote over the socket (an API key's ticket only); `price` is scaled by 1e6. Repeated by itself when the connection
   * breaks. `Problem` as `client.rfq.quote`, `scope_missing`; `NoAnswer` after 30 s: it may have been placed.
   *
   * @example
   * ```ts
   * const quote = await stream.quote({ request_id: request.request_id, price: 650_000, expires_in_secs: 60 });
   * ```
   */
  quote(terms: {
    request_id: string;
    price: number;
    expires_in_secs?: number;
    idempotency_key?: string;
  }): Promise<Quote> {
    const { request_id, price, expires_in_secs, idempotency_key = crypto.randomUUID() } = terms;
    return this.#command("quote", { request_id, price, expires_in_secs, idempotency_key });
  }

  /**
   * Cancels a quote over the socket. `Problem` as `client.rfq.cancelQuote`.
   *
   * @example
   * ```ts
   * const quote = await stream.quote({ request_id: request.request_id, price: 650_000 });
   * await stream.cancelQuote(quote);
   * ```
   */
  cancelQuote({
    quote_id,
  }: {
    quote_id: string;
  }): Promise<{ quote_id: string; status: "cancelled" }> {
    return this.#command("cancel_quote", { quote_id });
  }

  /**
   * Trades over the socket. `Problem` as `client.rfq.accept`.
   *
   * @example
   * ```ts
   * for await (const message of stream) {
   *   if (message.type === "quote.received" && message.data.price <= 500_000) await stream.accept(message.data);
   * }
   * ```
   */
  accept({ quote_id }: { quote_id: string }): Promise<Match> {
    return this.#command("accept", { quote_id });
  }

  /**
   * Ends the stream; what has arrived can still be read. Commands without an answer throw `NoAnswer`.
   *
   * @example
   * ```ts
   * setTimeout(() => stream.close(), 60_000);
   * ```
   */
  close(): void {
    this.#end(null);
  }

  #start(): void {
    if (this.#running || this.#stop.signal.aborted) return;
    this.#running = true;
    void this.#run();
  }

  async #run(): Promise<void> {
    try {
      for (let attempt = 1; !this.#stop.signal.aborted; attempt++) {
        const { greeted, ...lost } = await this.#attempt();
        if (this.#stop.signal.aborted) return;
        if (greeted) attempt = 1;
        this.#options.onDisconnect?.({ ...lost, attempt });
        await sleep(reconnectDelay(lost.error, attempt), this.#stop.signal);
        await this.#inbox.roomAgain();
      }
    } catch (error) {
      // Or only the sleep was broken off, by an end that came before this one.
      this.#end(error);
    }
  }

  /** One connection, and why there is none if the service tells. Throws what no later attempt would change. */
  async #attempt(): Promise<Ended & { error: Problem | NoAnswer | null }> {
    let ended: Ended = { code: 1006, reason: "no ticket", greeted: false };
    try {
      ended = await this.#connect();
      if (!ended.greeted && !this.#stop.signal.aborted) await this.#options.whyRefused?.();
      return { ...ended, error: null };
    } catch (error) {
      if (mayPass(error)) return { ...ended, error };
      throw error;
    }
  }

  /** From ticket to close. */
  async #connect(): Promise<Ended> {
    const { ticket } = await this.#options.ticket();
    if (this.#stop.signal.aborted) return { code: 1000, reason: "closed", greeted: false };
    const since = this.#order.since;
    const query = new URLSearchParams({
      ...this.#options.query,
      ...(since === null ? {} : { since: String(since) }),
      ticket,
    });
    const WebSocketClass = this.#options.webSocket ?? globalWebSocket();
    const socket = new WebSocketClass(`${this.#options.url}?${query.toString()}`);
    this.#socket = socket;
    const watch = watchConnection(socket, this.#order);
    try {
      return await new Promise((resolve) => {
        socket.addEventListener("message", ({ data }) => {
          watch.heard();
          this.#receive(String(data), watch.greeted);
        });
        socket.addEventListener("close", ({ code = 1006, reason = "" }) =>
          resolve({ code, reason, greeted: this.#open }),
        );
        socket.addEventListener("error", () =>
          resolve({ code: 1006, reason: "connection failed", greeted: this.#open }),
        );
        watch.gaveUp.then(
          (reason) => resolve({ code: 1006, reason, greeted: this.#open }),
          () => {},
        );
      });
    } finally {
      watch.end();
      this.#open = false;
      this.#socket = null;
      this.#order.disconnected();
      closeQuietly(socket);
    }
  }

  #receive(text: string, greeted: () => void): void {
    const message = readFrame(text);
    if (message === null) return;
    switch (message.type) {
      case "pong":
        return this.#order.pong(message.seq);
      case "result":
        return this.#answered(message.id, (command) => command.resolve(message.data));
      case "error":
        return this.#answered(message.id, (command) =>
          command.reject(
            new Problem(message.data, { status: Number(message.data["status"] ?? 0) }),
          ),
        );
      default:
        // Not of a stream: something newer than this client.
        if (!Number.isSafeInteger(message.seq)) return;
        for (const shown of this.#order.take(message))
          if (!this.#inbox.put(shown)) closeQuietly(this.#socket);
        if (message.type !== "hello") return;
        greeted();
        this.#open = true;
        this.#ready.resolve();
        for (const { frame } of this.#commands.values()) this.#socket?.send(frame);
    }
  }

  #command<T>(op: string, terms: object): Promise<T> {
    this.#start();
    const id = crypto.randomUUID();
    const frame = JSON.stringify({ id, op, ...terms });
    return new Promise<T>((resolve, reject) => {
      if (this.#stop.signal.aborted) return reject(new NoAnswer(op, "the stream is closed"));
      const timer = setTimeout(() => {
        this.#commands.delete(id);
        reject(new NoAnswer(op, "no answer in time"));
      }, COMMAND_TIMEOUT_MS);
      // What the service answers to an op is what T says in the methods above.
      this.#commands.set(id, { frame, resolve: (data) => resolve(data as T), reject, timer });
      if (this.#open) this.#socket?.send(frame);
    });
  }

  #answered(id: string | null, settle: (command: Command) => void): void {
    const command = id === null ? undefined : this.#commands.get(id);
    if (id === null || command === undefined) return;
    this.#commands.delete(id);
    clearTimeout(command.timer);
    settle(command);
  }

  #end(error: unknown): void {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort(new Error("the stream is closed"));
    this.#ready.reject(error ?? new NoAnswer("stream", "closed before it was open"));
    this.#inbox.end(error);
    for (const id of this.#commands.keys())
      this.#answered(id, (command) =>
        command.reject(error ?? new NoAnswer("command", "the stream was closed")),
      );
    closeQuietly(this.#socket);
  }
}

/** Null for what cannot be read: if it was a message of the stream, it is missed as a gap and asked for again. */
function readFrame(text: string): StreamMessage | ControlMessage | null {
  try {
    // The service's messages are trusted to have the shape of its published description.
    return decode(text) as StreamMessage | ControlMessage | null;
  } catch {
    return null;
  }
}

/** Pings, and gives the connection up when it is silent, when a gap stays, or when hello does not come. */
function watchConnection(socket: WebSocketLike, order: StreamOrder) {
  const gaveUp = deferred<string>();
  let heardAt = Date.now();
  let pingedAt: number | null = null;
  let gapSince: number | null = null;
  let greeted = false;
  const startedAt = heardAt;
  const timer = setInterval(() => {
    const now = Date.now();
    if (!greeted) {
      if (now - startedAt > HELLO_TIMEOUT_MS) gaveUp.resolve("no hello");
      return;
    }
    if (pingedAt !== null && heardAt < pingedAt && now - pingedAt > SILENCE_MS)
      gaveUp.resolve("silence");
    gapSince = order.hasGap ? (gapSince ?? now) : null;
    if (gapSince !== null && now - gapSince > GAP_MS) gaveUp.resolve("a gap was not filled");
    if (pingedAt === null || now - pingedAt > PING_INTERVAL_MS) {
      pingedAt = now;
      sendQuietly(socket, "ping");
    }
  }, 1_000);
  return {
    gaveUp: gaveUp.promise,
    heard: () => void (heardAt = Date.now()),
    greeted: () => void (greeted = true),
    end: () => clearInterval(timer),
  };
}

function globalWebSocket(): new (url: string) => WebSocketLike {
  if (typeof WebSocket === "undefined") {
    throw new Error(
      "This runtime has no WebSocket: give the client the option `webSocket`, for example the class of the package ws.",
    );
  }
  // Every runtime's class fits; their declared types differ from each other.
  return WebSocket as unknown as new (url: string) => WebSocketLike;
}

function sendQuietly(socket: WebSocketLike, text: string): void {
  try {
    socket.send(text);
  } catch {
    // Closing already; its close event follows.
  }
}

function closeQuietly(socket: WebSocketLike | null): void {
  try {
    socket?.close(1000);
  } catch {
    // Closed already.
  }
}
