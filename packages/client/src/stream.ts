/**
 * A stream that reconnects. It creates its own tickets, detects silence and gaps, resumes where it
 * stopped, and delivers every message once and in order. It ends when it is closed, or when the
 * service rejects it for a reason that a retry cannot change.
 */
import { deferred } from "./deferred.ts";
import { Inbox } from "./inbox.ts";
import { afterUncertainAttempt, NoAnswer, NotSent, Problem } from "./problem.ts";
import { Deadline, deadlinePassedAt, type SentAt, ServerClock } from "./server-clock.ts";
import { LONGEST_TIMER_MS, sleep } from "./sleep.ts";
import { type AnswerMessage, readFrame, type StreamMessage } from "./stream-messages.ts";
import { StreamOrder } from "./stream-order.ts";
import { HELD_MS, isTransient, reconnectDelay } from "./stream-retry.ts";
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
import type { CallOptions } from "./transport.ts";
import { CommandLimits } from "./turns.ts";
import type { Match, Quote, QuoteResult } from "./types.ts";
import { closeQuietly, globalWebSocket, type WebSocketLike } from "./websocket.ts";

/** The options of a stream. `Client` provides all but `since` and `onDisconnect`. */
export type StreamOptions = {
  /** `wss://…/rfq/stream` or `wss://…/account/stream`. */
  url: string;
  /** `venue_id`, `asset_id`, `assets` for /rfq/stream, `snapshot` for /account/stream. */
  query: Record<string, string>;
  /** Creates a ticket. Called before each connection. */
  ticket: () => Promise<{ ticket: string }>;
  /** The service's clock. Default: what the hello message shows. */
  clock?: ServerClock | undefined;
  /** Of unanswered commands. Default: the usual ones. */
  limits?: CommandLimits | undefined;
  /**
   * Throws the reason why a connection was rejected, if the service reports one. Called when a
   * connection ends before the hello message, because a websocket does not report why.
   */
  whyRefused?: (() => Promise<void>) | undefined;
  /** Resume after this message number. Default: a snapshot, or only new events of the account. */
  since?: number | undefined;
  /**
   * Called each time the connection is lost or cannot be made, before the next attempt. `error` is
   * the reason, if known. `attempt` counts from the last connection that held for 30 s. Call
   * `close` here to stop retrying.
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
  op: string;
  /** Makes the frame, whose deadline needs the service's clock. */
  frame: () => string;
  deadline: Deadline;
  /** On this connection or an earlier one. */
  sent: SentAt | null;
  /** On several connections, so the service may have carried it out before. */
  sentAgain: boolean;
  /** Of the service's clock, after a passed deadline. Then it may be sent once more. */
  check: "none" | "running" | "done";
  resolve(data: unknown): void;
  reject(error: unknown): void;
  timers: ReturnType<typeof setTimeout>[];
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
  readonly #clock: ServerClock;
  readonly #limits: CommandLimits;
  /** Without a result, in the order of the calls. */
  readonly #commands = new Map<string, Command>();
  /** Sent on this connection and without an answer, also if their callers wait no more. */
  readonly #unanswered = new Set<string>();
  readonly #stop = new AbortController();
  #socket: WebSocketLike | null = null;
  /** The hello message of this connection has arrived. */
  #open = false;
  #openedAt = Infinity;
  #running = false;
  #reading = false;
  readonly #ready = deferred<void>();

  constructor(options: StreamOptions) {
    this.#options = options;
    const { since, clock = new ServerClock(Date.now, null), limits } = options;
    this.#clock = clock;
    this.#limits = limits ?? new CommandLimits(null);
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
   * Until then the client sends it again with the same idempotency key after a reconnection. Beyond
   * the limits of unanswered commands it waits. Throws `Problem` like `client.rfq.quote`, or
   * `scope_missing`. Throws `NotSent` if it waited too long, and `NoAnswer` if there is no result
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
    return this.#command("quote", fields, { ...options, maxAgeMs, not_after });
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
    const timed = { maxAgeMs, not_after: several.not_after };
    return this.#command("quotes", { quotes: quoteItems(several) }, { ...options, ...timed });
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
    return this.#command("cancel_quote", { quote_id }, options);
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
    const { not_after } = terms;
    return this.#command("accept", acceptBody(terms), { ...options, not_after });
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
        this.#openedAt = Infinity;
        const { greeted, ...lost } = await this.#attempt();
        if (this.#stop.signal.aborted) return;
        if (greeted && performance.now() - this.#openedAt >= HELD_MS) attempt = 1;
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
    const watch = watchConnection(socket, this.#order, this.#clock);
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
      for (const id of this.#unanswered) this.#answered(id);
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
      case "error":
        return this.#answer(message);
      default:
        // A message type that is newer than this client and not part of the stream.
        if (!Number.isSafeInteger(message.seq)) return;
        for (const next of this.#order.take(message))
          if (!this.#inbox.put(next)) closeQuietly(this.#socket);
        if (message.type !== "hello") return;
        this.#clock.atLeast(Date.parse(message.data.server_time));
        greeted();
        this.#open = true;
        this.#openedAt = performance.now();
        this.#ready.resolve();
        this.#pump();
    }
  }

  #command<T>(
    op: string,
    fields: object,
    {
      signal,
      timeoutMs = COMMAND_TIMEOUT_MS,
      ...terms
    }: CallOptions & { maxAgeMs?: number; not_after?: Date | string | undefined },
  ): Promise<T> {
    this.#start();
    const deadline = new Deadline(this.#clock, terms);
    const endsAt = performance.now() + timeoutMs;
    const id = crypto.randomUUID();
    const submit = () =>
      new Promise<T>((resolve, reject) => {
        if (this.#stop.signal.aborted) return reject(new NoAnswer(op, "the stream is closed"));
        if (signal?.aborted === true) return reject(signal.reason);
        const fail = (error: unknown) => this.#finish(id, (command) => command.reject(error));
        const onAbort = () => fail(signal?.reason);
        signal?.addEventListener("abort", onAbort, { once: true });
        const settled = () => signal?.removeEventListener("abort", onAbort);
        const expire = () =>
          fail(command.sent === null ? new NotSent(op) : new NoAnswer(op, "no result in time"));
        const late = () => command.sent === null && expire();
        // The public methods name the result type of their command.
        const command: Command = {
          op,
          frame: () => JSON.stringify({ id, op, ...fields, not_after: deadline.notAfter }),
          deadline,
          sent: null,
          sentAgain: false,
          check: "none",
          resolve: (data) => (settled(), resolve(data as T)),
          reject: (error) => (settled(), reject(error)),
          timers: [timerAt(endsAt, expire), timerAt(deadline.sendBefore, late)],
        };
        this.#commands.set(id, command);
        this.#pump();
      });
    if (op !== "quotes") return submit();
    const until = { endsAt: Math.min(endsAt, deadline.sendBefore), signal };
    return this.#limits.severalQuotes.run(op, until, submit);
  }

  /** Sends what the limits of the service admit. */
  #pump(): void {
    for (;;) {
      const next = this.#next();
      if (next === undefined || !this.#limits.commands.take(this.#whenFree)) return;
      this.#send(...next);
    }
  }

  /** Returns whether it used the place that has become free. */
  readonly #whenFree = (): boolean => {
    const next = this.#next();
    if (next === undefined) return false;
    this.#send(...next);
    this.#pump();
    return true;
  };

  /** The first command that may be sent now, at first or after a reconnection. */
  #next(): [id: string, command: Command] | undefined {
    if (!this.#open || this.#unanswered.size >= this.#limits.perSocket) return undefined;
    for (const [id, command] of this.#commands) {
      if (this.#unanswered.has(id) || command.check === "running") continue;
      if (performance.now() < command.deadline.sendBefore) return [id, command];
      const lost = "the connection was lost, and its deadline has passed";
      const { op, sent } = command;
      const error = sent === null ? new NotSent(op) : new NoAnswer(op, lost);
      this.#finish(id, (late) => late.reject(error));
    }
    return undefined;
  }

  #send(id: string, command: Command): void {
    this.#unanswered.add(id);
    command.sentAgain = command.sent !== null;
    command.sent = { at: performance.now(), ahead: this.#clock.ahead };
    this.#socket?.send(command.frame());
  }

  #answer(message: AnswerMessage): void {
    const { id, data } = message;
    if (id === null) return;
    const command = this.#commands.get(id);
    const passedAt = deadlinePassedAt(data);
    if (command?.sent && command.check === "none" && !Number.isNaN(passedAt)) {
      command.check = "running";
      const { deadline, sent } = command;
      const leftMs = deadline.sendBefore - performance.now();
      void this.#clock.wasWrong(passedAt, sent, leftMs).then((wrong) => {
        command.check = "done";
        if (!wrong || !deadline.allowsCorrection) this.#settle(message);
        this.#pump();
      });
    } else this.#settle(message);
    // After it is settled, because the free place may be used at once.
    this.#answered(id);
    this.#pump();
  }

  #answered(id: string): void {
    if (this.#unanswered.delete(id)) this.#limits.commands.give();
  }

  #settle({ type, id, data }: AnswerMessage): void {
    this.#finish(id, (command) => {
      if (type === "result") return command.resolve(data);
      const problem = new Problem(data, { status: Number(data["status"] ?? 0) });
      command.reject(command.sentAgain ? afterUncertainAttempt(command.op, problem) : problem);
    });
  }

  #finish(id: string | null, settle: (command: Command) => void): void {
    const command = id === null ? undefined : this.#commands.get(id);
    if (id === null || command === undefined) return;
    this.#commands.delete(id);
    command.timers.forEach(clearTimeout);
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

/** At an instant by `performance.now()`. */
function timerAt(at: number, run: () => unknown): ReturnType<typeof setTimeout> {
  const ms = Math.max(0, Math.ceil(at - performance.now()));
  return setTimeout(run, Math.min(ms, LONGEST_TIMER_MS));
}
