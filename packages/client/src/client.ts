/** The service as one object. */
import { Auth } from "./auth.ts";
import { Custody } from "./custody.ts";
import { Problem } from "./problem.ts";
import { Rfq } from "./rfq.ts";
import { Stream, type StreamOptions } from "./stream.ts";
import { type Credential, Transport, type TransportOptions } from "./transport.ts";
import type { MarketAsset, ServerTime, ServiceConfig, Venue } from "./types.ts";

/** Everything but `baseUrl` may be left out; without a `credential` only the public calls work. */
export type ClientOptions = TransportOptions & {
  /** For runtimes without a global WebSocket, such as Node 20: the class of the package `ws` fits. */
  webSocket?: StreamOptions["webSocket"];
};

/**
 * A client of the service. It signs what it sends, repeats only what is safe to repeat, and throws `Problem` when the
 * service refuses a call and `NoAnswer` when there was none.
 *
 * @example
 * ```ts
 * const client = new Client({
 *   baseUrl: "http://127.0.0.1:8787",
 *   credential: { apiKeyId: "7f0c0000-0000-4000-8000-000000000000", secret: "c2VjcmV0" },
 * });
 * const { balance } = await client.custody.usdcBalance();
 * ```
 */
export class Client {
  readonly auth: Auth;
  readonly custody: Custody;
  readonly rfq: Rfq;
  readonly #transport: Transport;
  readonly #options: ClientOptions;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#transport = new Transport(options);
    this.auth = new Auth(this.#transport);
    this.custody = new Custody(this.#transport);
    this.rfq = new Rfq(this.#transport);
  }

  /**
   * Logs in and answers a client with that session, which ends after an hour. `Problem` `login_failed`, `login_throttled`,
   * `account_frozen`.
   *
   * @example
   * ```ts
   * const client = await Client.login({ baseUrl: "http://127.0.0.1:8787", email: "taker@demo.test", password: "correct horse battery" });
   * ```
   */
  static async login({
    email,
    password,
    ...options
  }: ClientOptions & { email: string; password: string }): Promise<Client> {
    const { access_token } = await new Client(options).auth.login({ email, password });
    return new Client({ ...options, credential: { accessToken: access_token } });
  }

  /**
   * The same service and settings with an API key.
   *
   * @example
   * ```ts
   * const bot = client.withApiKey({ apiKeyId: "7f0c0000-0000-4000-8000-000000000000", secret: "c2VjcmV0" });
   * ```
   */
  withApiKey(credential: Extract<Credential, { apiKeyId: string }>): Client {
    return new Client({ ...this.#options, credential });
  }

  /**
   * The same service and settings with a session.
   *
   * @example
   * ```ts
   * const session = await client.auth.register({ email: "new@demo.test", password: "correct horse battery" });
   * const mine = client.withSession(session);
   * ```
   */
  withSession(session: { access_token: string }): Client {
    return new Client({ ...this.#options, credential: { accessToken: session.access_token } });
  }

  /**
   * The server's time, in milliseconds since 1970 and as RFC 3339. Public. Signing needs no call of it: the client corrects
   * its clock by itself when the service refuses a timestamp.
   *
   * @example
   * ```ts
   * const { unix_ms } = await client.time();
   * console.log(`this clock is ${Date.now() - unix_ms} ms ahead`);
   * ```
   */
  time(): Promise<ServerTime> {
    return this.#transport.call({ method: "GET", path: "/time", open: true });
  }

  /**
   * Whether the service and its database answer. Public. `Problem` with status 503 when they do not, after the client's attempts.
   *
   * @example
   * ```ts
   * const { status } = await client.health();
   * ```
   */
  health(): Promise<{ status: "ok" }> {
    return this.#transport.call({ method: "GET", path: "/health", open: true });
  }

  /**
   * Chains, venues with their fees (basis points), and limits of the deployment. Public.
   *
   * @example
   * ```ts
   * const { venues } = await client.config();
   * const fees = venues.map(({ venue_id, taker_fee_bps }) => `${venue_id}: ${taker_fee_bps / 100} %`);
   * ```
   */
  config(): Promise<ServiceConfig> {
    return this.#transport.call({ method: "GET", path: "/config", open: true });
  }

  /**
   * The public events of one book: a snapshot of its open requests, then what changes. Needs the scope read, and trade to
   * send commands over it.
   *
   * @example
   * ```ts
   * const stream = client.bookStream({ venue_id: "venue_one", asset_id: "0xab" });
   * for await (const message of stream) {
   *   if (message.type !== "request.opened") continue;
   *   await stream.quote({ request_id: message.data.request_id, price: 650_000 });
   * }
   * ```
   */
  bookStream(options: MarketAsset & StreamSettings): Stream {
    return this.#stream(
      "/rfq/stream",
      { venue_id: options.venue_id, asset_id: options.asset_id },
      options,
    );
  }

  /**
   * The public events of every book of a venue, as those of one book.
   *
   * @example
   * ```ts
   * for await (const message of client.venueStream({ venue_id: "venue_one" })) {
   *   if (message.type === "snapshot") console.log(message.data.requests.length, "open requests");
   *   if (message.type === "request.closed") console.log(message.data.request_id, message.data.reason);
   * }
   * ```
   */
  venueStream(options: { venue_id: Venue } & StreamSettings): Stream {
    return this.#stream("/rfq/stream", { venue_id: options.venue_id }, options);
  }

  /**
   * The caller's own events: requests, quotes, matches, deposits, withdrawals. It has no snapshot; after a `resync` read what
   * you need by REST.
   *
   * @example
   * ```ts
   * for await (const message of client.accountStream({ since: 41 })) {
   *   if (message.type === "match.created") console.log(message.data.role, message.data.usdc_amount, "after", message.seq);
   * }
   * ```
   */
  accountStream(options: StreamSettings = {}): Stream {
    return this.#stream("/account/stream", {}, options);
  }

  #stream(
    path: string,
    query: Record<string, string>,
    { since, onDisconnect }: StreamSettings,
  ): Stream {
    const { webSocket } = this.#options;
    return new Stream({
      url: this.#transport.baseUrl.replace(/^http/, "ws") + path,
      query,
      ticket: () => this.auth.wsTicket(),
      whyRefused: () => this.#whyRefused(path, query),
      webSocket,
      since,
      onDisconnect,
    });
  }

  /**
   * What stands in a stream's way, as far as a plain GET meets it too; no ticket is in it. The stream's own address answers
   * with what comes before the upgrade: no such path, too many calls, out of order. `websocket_required` is its yes. Then a
   * read with the same credential, scope, venue and asset answers with what is checked after it.
   */
  async #whyRefused(path: string, query: Record<string, string>): Promise<void> {
    try {
      await this.#transport.call({ method: "GET", path, open: true, once: true });
    } catch (error) {
      if (!(error instanceof Problem && error.code === "websocket_required")) throw error;
    }
    await this.#transport.call({
      method: "GET",
      path: "/rfq/request",
      query: { ...query, limit: 1 },
      once: true,
    });
  }
}

/** What may be said about any stream; see `StreamOptions`. */
export type StreamSettings = Pick<StreamOptions, "since" | "onDisconnect">;
