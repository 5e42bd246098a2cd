/**
 * A stream that reconnects. It creates its own tickets, detects silence and gaps, resumes where it
 * stopped, and delivers every message once and in order. It ends when it is closed, or when the
 * service rejects it for a reason that a retry cannot change.
 */
import { deferred } from "./deferred.ts";
import { Inbox } from "./inbox.ts";
import { afterUncertainAttempt, NoAnswer, Problem } from "./problem.ts";
import { readFrame, type StreamMessage } from "./stream-messages.ts";
import { StreamOrder } from "./stream-order.ts";
import { isTransient, reconnectDelay } from "./stream-retry.ts";
import { watchConnection } from "./stream-watch.ts";
import {
  acceptBody,
  type AcceptTerms,
  QUOTE_MAX_AGE_MS,
  quoteFields,
  quoteItems,
  type QuoteTerms,
  type SeveralQuotes,
} from "./rfq.ts";
import { type CallOptions, LONGEST_TIMER_MS, sleep } from "./transport.ts";
import type { Match, Quote, QuoteResult } from "./types.ts";
import { closeQuietly, globalWebSocket, type WebSocketLike } from "./websocket.ts";

/** The options of a stream. `Client` provides all but `since` and `onDisconnect`. */
export type StreamOptions = {
  /** `wss://…/rfq/stream` or `wss://…/account/stream`. */
  url: string;
  /** `venue_id`, `asset_id`, `assets` for /rfq/stream, `snapshot` for /account/stream. */
  query: Record<string, string>;
  /**
   * Creates a ticket. Called before each connection. `clockOffsetMs` is a lower bound of how far
   * the service's clock is ahead of `Date.now`. Default: what the hello message shows.
   */
  ticket: () => Promise<{ ticket: string; clockOffsetMs?: number | null }>;
  /**
   * Throws the reason why a connection was rejected, if the service reports one. Called when a
   * connection ends before the hello message, because a websocket does not report why.
   */
  whyRefused?: (() => Promise<void>) | undefined;
  /** Resume after this message number. Default: a snapshot, or only new events of the account. */
  since?: number | undefined;
  /**
   * Called each time the connection is lost or cannot be made, before the next attempt. `error` is
   * the reason, if known. `attempt` counts from the last hello message. Call `close` here to stop
   * retrying.
   */
  onDisconnect?:
    | ((event: {
        code: number;
        reason: string;
        attempt: number;
        error: Problem | NoAnswer | null;
      }) => void)
    | undefined;
  /** Ends the stream. Its loop and its commands throw the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Default: the global `WebSocket`. */
  webSocket?: (new (url: string) => WebSocketLike) | undefined;
};

/** How a connection ended. `greeted`: the hello message had arrived. */
type Ended = { code: number; reason: string; greeted: boolean };

type Command = {
  /** Makes the frame, whose deadline needs the service's clock. */
  frame: () => string;
  /** Unix milliseconds by our clock, from which on it is not sent any more. */
  sendBefore: number;
  /** On this connection or an earlier one. */
  sent: boolean;
  /** On several connections, so the service may have carried it out before. */
  sentAgain: boolean;
  resolve(data: unknown): void;
  reject(error: unknown): void;
  timer: ReturnType<typeof setTimeout>;
};

const COMMAND_TIMEOUT_MS = 30_000;

/**
 * The messages of a stream, in order, each exactly once, across reconnections. Created by
 * `client.bookStream`, `client.venueStream` and `client.accountStream`. It supports one loop at a
 * time.
 *
 * @example
 * ```ts
 * const stream = client.accountStream({
 *   onDisconnect: ({ code, reason }) => console.log("lost the connection", code, reason),
 * });
 * for await (const message of stream) {
 *   if (message.type === "deposit.credited") console.log(message.data.amount);
 *   // Missed events cannot be replayed, so read the current state.
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
  /** The hello message of this connection has arrived. */
  #open = false;
  /** The service's clock minus ours, once the hello message of a connection has arrived. */
  #clockOffsetMs = 0;
  /** The same, as far as the client knew it before this connection. */
  #leastOffsetMs = -Infinity;
  #running = false;
  #reading = false;
  readonly #ready = deferred<void>();

  constructor(options: StreamOptions) {
    this.#options = options;
    const { since } = options;
    // Checked here, because the service would reject every upgrade with it.
    if (since !== undefined && !(Number.isSafeInteger(since) && since >= 0))
      throw new RangeError("`since` must be the number of a message: an integer of at least 0.");
    const ofAccount = options.url.endsWith("/account/stream");
    const hasSnapshot = !ofAccount || options.query["snapshot"] === "true";
    const filtered = options.query["assets"] !== undefined;
    this.#order = new StreamOrder({ hasSnapshot, filtered, since });
    // Without a call of `ready`, its rejection would be unhandled.
    this.#ready.promise.catch(() => {});
    const { signal } = options;
    const aborted = () => this.#end(signal?.reason);
    if (signal?.aborted === true) aborted();
    signal?.addEventListener("abort", aborted, { once: true, signal: this.#stop.signal });
  }

  /**
   * Number of the last message that arrived in order, null until the first snapshot. After you have
   * read all messages, store it and pass it as `since` to the next stream.
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
   * Connects, and resolves when the service has sent its hello message. Retries while the service
   * is unreachable, returns 429 or 5xx, or rejects the socket without a reason that a request can
   * find (`socket_limit`, or a proxy without websockets), calling `onDisconnect` each time. Throws
   * the `Problem` that ends the stream otherwise, for example `scope_missing`, `ip_not_allowed`,
   * `account_frozen`, `api_key_revoked` or `invalid_request`.
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
   * Yields messages until the stream is closed, or throws the `Problem` that ends it. Leaving the
   * loop closes the stream. A stream that only sends commands needs no loop: after 10 000 unread
   * messages it drops what arrives, and a loop that begins then throws `Error`.
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
      throw new Error(
        "A stream supports one loop at a time, because it delivers each message once.",
      );
    this.#inbox.begin();
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
   * Places a firm quote over the socket. `price` is USDC per unit, scaled by 1e6. Needs a client
   * with an API key. If it is not placed within `maxAgeMs` (default 1 000), it is never placed.
   * Until then the client sends it again with the same idempotency key after a reconnection. Throws
   * `Problem` like `client.rfq.quote`, or `scope_missing`. Throws `NoAnswer` if there is no result
   * within `timeoutMs` (default 30 000) or before the connection is lost: then the quote may or may
   * not have been placed within `maxAgeMs`.
   *
   * @example
   * ```ts
   * const quote = await stream.quote({
   *   request_id: request.request_id,
   *   price: 650_000,
   *   expires_in_secs: 60,
   * });
   * ```
   */
  quote(
    terms: QuoteTerms & { idempotency_key?: string },
    { maxAgeMs = QUOTE_MAX_AGE_MS, ...options }: CallOptions & { maxAgeMs?: number } = {},
  ): Promise<Quote> {
    const { not_after, idempotency_key = crypto.randomUUID() } = terms;
    const fields = { ...quoteFields(terms), idempotency_key };
    return this.#commandBefore("quote", { fields, maxAgeMs, not_after }, options);
  }

  /**
   * Places up to 20 quotes over the socket, as `client.rfq.quoteMany`. Until `maxAgeMs` the client
   * sends them again with the same idempotency keys after a reconnection.
   *
   * @example
   * ```ts
   * const { items } = await client.rfq.openRequests({ venue_id: "venue_one", limit: 20 }).page();
   * const quotes = items.map(({ request_id }) => ({ request_id, price: 650_000 }));
   * const { results } = await stream.quoteMany({ quotes });
   * ```
   */
  quoteMany(
    several: SeveralQuotes,
    { maxAgeMs = QUOTE_MAX_AGE_MS, ...options }: CallOptions & { maxAgeMs?: number } = {},
  ): Promise<{ results: QuoteResult[] }> {
    const fields = { quotes: quoteItems(several) };
    const { not_after } = several;
    return this.#commandBefore("quotes", { fields, maxAgeMs, not_after }, options);
  }

  /** Sends a command with a deadline, and not after it. */
  #commandBefore<T>(
    op: string,
    command: { fields: object; maxAgeMs: number; not_after: Date | string | undefined },
    options: CallOptions,
  ): Promise<T> {
    const { fields, maxAgeMs, not_after } = command;
    const given = not_after === undefined ? Number.NaN : new Date(not_after).getTime();
    // A deadline that was given is by the service's clock. One that cannot be read is its to
    // reject.
    const sendBefore =
      not_after === undefined
        ? Date.now() + maxAgeMs
        : Number.isNaN(given)
          ? Infinity
          : given - this.#clockOffsetMs;
    const notAfter = () =>
      not_after ??
      (sendBefore === Infinity ? undefined : new Date(sendBefore + this.#clockOffsetMs));
    return this.#command(op, () => ({ ...fields, not_after: notAfter() }), options, sendBefore);
  }

  /**
   * Cancels a quote over the socket. Throws like `client.rfq.cancelQuote`, or `NoAnswer` after 30 s
   * without a result.
   *
   * @example
   * ```ts
   * const quote = await stream.quote({ request_id: request.request_id, price: 650_000 });
   * await stream.cancelQuote(quote);
   * ```
   */
  cancelQuote(
    { quote_id }: { quote_id: string },
    options: CallOptions = {},
  ): Promise<{ quote_id: string; status: "cancelled" }> {
    return this.#command("cancel_quote", () => ({ quote_id }), options);
  }

  /**
   * Accepts a quote over the socket. Throws like `client.rfq.accept`, or `NoAnswer` after 30 s
   * without a result.
   *
   * @example
   * ```ts
   * for await (const { type, data } of stream) {
   *   if (type === "quote.received" && data.price <= 500_000) await stream.accept(data);
   * }
   * ```
   */
  accept(terms: AcceptTerms, options: CallOptions = {}): Promise<Match> {
    return this.#command("accept", () => acceptBody(terms), options);
  }

  /**
   * Ends the stream. Messages that have arrived can still be read. Commands without a result throw
   * `NoAnswer`.
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
        await this.#inbox.caughtUp();
      }
    } catch (error) {
      // Has no effect if `close` has ended the stream and only interrupted the sleep.
      this.#end(error);
    }
  }

  /** Makes one connection. Returns why it ended, or throws an error that a retry cannot change. */
  async #attempt(): Promise<Ended & { error: Problem | NoAnswer | null }> {
    let ended: Ended = { code: 1006, reason: "no ticket", greeted: false };
    try {
      ended = await this.#connect();
      if (!ended.greeted && !this.#stop.signal.aborted) await this.#options.whyRefused?.();
      return { ...ended, error: null };
    } catch (error) {
      if (isTransient(error)) return { ...ended, error };
      throw error;
    }
  }

  /** Connects with a new ticket and returns when the connection has ended. */
  async #connect(): Promise<Ended> {
    const { ticket, clockOffsetMs } = await this.#options.ticket();
    this.#leastOffsetMs = clockOffsetMs ?? -Infinity;
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
          // The package ws delivers what had arrived, even after `close`.
          if (this.#socket !== socket) return;
          const text = String(data);
          watch.heard(text);
          this.#receive(text, watch.greeted);
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
        return this.#finish(message.id, (command) => command.resolve(message.data));
      case "error":
        return this.#finish(message.id, (command) => {
          const problem = new Problem(message.data, {
            status: Number(message.data["status"] ?? 0),
          });
          command.reject(command.sentAgain ? afterUncertainAttempt("command", problem) : problem);
        });
      default:
        // A message type that is newer than this client and not part of the stream.
        if (!Number.isSafeInteger(message.seq)) return;
        for (const next of this.#order.take(message))
          if (!this.#inbox.put(next)) closeQuietly(this.#socket);
        if (message.type !== "hello") return;
        this.#compareClocks(message.data.server_time);
        greeted();
        this.#open = true;
        this.#ready.resolve();
        for (const [id, command] of this.#commands) this.#send(id, command);
    }
  }

  #command<T>(
    op: string,
    fields: () => object,
    { signal, timeoutMs = COMMAND_TIMEOUT_MS }: CallOptions,
    sendBefore = Infinity,
  ): Promise<T> {
    this.#start();
    const id = crypto.randomUUID();
    const frame = () => JSON.stringify({ id, op, ...fields() });
    return new Promise<T>((resolve, reject) => {
      if (this.#stop.signal.aborted) return reject(new NoAnswer(op, "the stream is closed"));
      if (signal?.aborted === true) return reject(signal.reason);
      const fail = (error: unknown) => this.#finish(id, (command) => command.reject(error));
      const timer = setTimeout(
        () => fail(new NoAnswer(op, "no result in time")),
        Math.min(timeoutMs, LONGEST_TIMER_MS),
      );
      const onAbort = () => fail(signal?.reason);
      signal?.addEventListener("abort", onAbort, { once: true });
      const settled = () => signal?.removeEventListener("abort", onAbort);
      // The public methods name the result type of their command.
      const command: Command = {
        frame,
        sendBefore,
        sent: false,
        sentAgain: false,
        resolve: (data) => (settled(), resolve(data as T)),
        reject: (error) => (settled(), reject(error)),
        timer,
      };
      this.#commands.set(id, command);
      if (this.#open) this.#send(id, command);
    });
  }

  /** Sends a command, at first or after a reconnection, unless its deadline has passed. */
  #send(id: string, command: Command): void {
    if (Date.now() < command.sendBefore) {
      command.sentAgain = command.sent;
      command.sent = true;
      this.#socket?.send(command.frame());
      return;
    }
    const reason = command.sent
      ? "the connection was lost, and its deadline has passed"
      : "its deadline passed before it was sent";
    this.#finish(id, (late) => late.reject(new NoAnswer("quote", reason)));
  }

  /**
   * A message takes some time, so the service's clock is at least as late as it says. A long replay
   * delays `hello`. Therefore the larger of two offsets is the better one.
   */
  #compareClocks(serverTime: string): void {
    const offsetMs = Math.max(Date.parse(serverTime) - Date.now(), this.#leastOffsetMs);
    if (Number.isFinite(offsetMs)) this.#clockOffsetMs = offsetMs;
  }

  #finish(id: string | null, settle: (command: Command) => void): void {
    const command = id === null ? undefined : this.#commands.get(id);
    if (id === null || command === undefined) return;
    this.#commands.delete(id);
    clearTimeout(command.timer);
    settle(command);
  }

  #end(error: unknown): void {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort(new Error("the stream is closed"));
    this.#ready.reject(error ?? new NoAnswer("stream", "closed before the first hello message"));
    this.#inbox.end(error);
    for (const id of this.#commands.keys())
      this.#finish(id, (command) =>
        command.reject(error ?? new NoAnswer("command", "the stream was closed")),
      );
    closeQuietly(this.#socket);
  }
}
