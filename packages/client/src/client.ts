/** The whole service as one object. */
import { Auth } from "./auth.ts";
import { Custody } from "./custody.ts";
import { Live } from "./live.ts";
import { assetKey, LiveAccount, type Order } from "./live-account.ts";
import { LiveRequests, type RequestsSettings } from "./live-requests.ts";
import { LiveSource } from "./live-source.ts";
import { type PageOptions, Pages } from "./pages.ts";
import { Problem } from "./problem.ts";
import type { RateLimit } from "./rate-limits.ts";
import { Rfq } from "./rfq.ts";
import { Stream, type StreamOptions } from "./stream.ts";
import type { AccountEvent, EventsPage } from "./stream-messages.ts";
import {
  type CallOptions,
  type Credential,
  Transport,
  type TransportOptions,
} from "./transport.ts";
import type {
  Balance,
  Ticket,
  Market,
  MarketAsset,
  ServerTime,
  ServiceStatus,
  ServiceConfig,
  Liabilities,
  SigningKeys,
  Venue,
} from "./types.ts";
import { Webhooks } from "./webhooks.ts";

/**
 * How to reach the service. Only `baseUrl` is required. Without a `credential`, only the public
 * methods work.
 */
export type ClientOptions = TransportOptions & {
  /** A WebSocket class for runtimes without one. In Node 20, pass that of the package `ws`. */
  webSocket?: StreamOptions["webSocket"];
};

/**
 * A client of the service. It signs its requests, retries those that are safe to retry, and throws
 * `Problem` if the service rejects a request or `NoAnswer` if there is no usable response.
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
export class Client extends Webhooks {
  readonly auth: Auth;
  readonly custody: Custody;
  readonly rfq: Rfq;
  readonly #transport: Transport;
  readonly #options: ClientOptions;
  readonly #live = new LiveSource(
    (onDisconnect) => this.accountStream({ snapshot: true, onDisconnect }),
    () => new LiveAccount(),
  );

  constructor(options: ClientOptions) {
    const transport = new Transport(options);
    super(transport);
    this.#options = options;
    this.#transport = transport;
    this.auth = new Auth(this.#transport);
    this.custody = new Custody(this.#transport);
    this.rfq = new Rfq(this.#transport);
  }

  /**
   * Logs in and returns a client with that session, which lasts an hour by default. It does not log
   * in again when the session expires; a client with the credential `{ email, password }` does.
   * Throws `Problem`: `login_failed`, `login_throttled`, `account_frozen`, and `totp_required` or
   * `totp_invalid` if the account has TOTP.
   *
   * @example
   * ```ts
   * const client = await Client.login({
   *   baseUrl: "http://127.0.0.1:8787",
   *   email: "you@example.com",
   *   password: "correct horse battery",
   * });
   * ```
   */
  static async login({
    email,
    password,
    totp_code,
    ...options
  }: ClientOptions & { email: string; password: string; totp_code?: string }): Promise<Client> {
    const login = { email, password, ...(totp_code === undefined ? {} : { totp_code }) };
    const { access_token } = await new Client(options).auth.login(login);
    return new Client({ ...options, credential: { accessToken: access_token } });
  }

  /**
   * Returns a client with the same options and this API key.
   *
   * @example
   * ```ts
   * const apiKeyId = "7f0c0000-0000-4000-8000-000000000000";
   * const bot = client.withApiKey({ apiKeyId, secret: "c2VjcmV0" });
   * ```
   */
  withApiKey(credential: Extract<Credential, { apiKeyId: string }>): Client {
    return new Client({ ...this.#options, credential });
  }

  /**
   * Returns a client with the same options and this session.
   *
   * @example
   * ```ts
   * const session = await client.auth.register({
   *   email: "you@example.com",
   *   password: "correct horse battery",
   * });
   * const mine = client.withSession(session);
   * ```
   */
  withSession(session: { access_token: string }): Client {
    return new Client({ ...this.#options, credential: { accessToken: session.access_token } });
  }

  /**
   * Returns the rate limits that the service has reported to this client, and what is left of those
   * that it counts exactly.
   *
   * @example
   * ```ts
   * for (const { name, quota, windowSecs, remaining } of client.rateLimits())
   *   console.log(name, quota, "calls in", windowSecs, "s", remaining);
   * ```
   */
  rateLimits(): RateLimit[] {
    return this.#transport.rateLimits();
  }

  /**
   * Returns the server's time, in milliseconds since 1970 and as RFC 3339. Public. Signing does not
   * need it: the client corrects its clock when the service rejects a timestamp.
   *
   * @example
   * ```ts
   * const { unix_ms } = await client.time();
   * console.log(`this clock is ${Date.now() - unix_ms} ms ahead`);
   * ```
   */
  time(options: CallOptions = {}): Promise<ServerTime> {
    return this.#transport.call({ method: "GET", path: "/time", public: true, options });
  }

  /**
   * Returns `ok` if the service and its database respond. Public. Otherwise throws a `Problem` with
   * status 503 after the last attempt.
   *
   * @example
   * ```ts
   * const { status } = await client.health();
   * ```
   */
  health(options: CallOptions = {}): Promise<{ status: "ok" }> {
    return this.#transport.call({ method: "GET", path: "/health", public: true, options });
  }

  /**
   * Returns whether trading, deposits and withdrawals are `ok`, `slow`, `paused` or `unknown`, as
   * measured within the last minutes. Public.
   *
   * @example
   * ```ts
   * const { withdrawals, measured_at } = await client.status();
   * if (withdrawals !== "ok") console.log(`withdrawals were ${withdrawals} at ${measured_at}`);
   * ```
   */
  status(options: CallOptions = {}): Promise<ServiceStatus> {
    return this.#transport.call({ method: "GET", path: "/status", public: true, options });
  }

  /**
   * Returns the public keys that verify receipts, old ones too. Public. Keep them, and you verify
   * receipts without the service.
   *
   * @example
   * ```ts
   * const { keys } = await client.signingKeys();
   * ```
   */
  signingKeys(options: CallOptions = {}): Promise<SigningKeys> {
    const path = "/.well-known/jwks.json";
    return this.#transport.call({ method: "GET", path, public: true, options });
  }

  /**
   * Returns what the service owed its users, and what the chains held, on a day (`2026-11-28`), or
   * in the newest record. Public. Throws `Problem`: `liability_unknown`.
   *
   * @example
   * ```ts
   * const { day, owed } = await client.liabilities();
   * for (const { asset_id, total, leaves } of owed) console.log(day, asset_id, total, leaves);
   * ```
   */
  liabilities({ day }: { day?: string } = {}, options: CallOptions = {}): Promise<Liabilities> {
    const path = "/.well-known/liabilities.json";
    return this.#transport.call({ method: "GET", path, query: { day }, public: true, options });
  }

  /**
   * Returns the same record as a receipt: a JWS that `verifyReceipt` and `verifyLiability` read. It
   * is the same for everyone. Throws `Problem`: `liability_unknown`.
   *
   * @example
   * ```ts
   * const receipt = await client.liabilitiesReceipt({ day: "2026-11-28" });
   * ```
   */
  liabilitiesReceipt({ day }: { day?: string } = {}, options: CallOptions = {}): Promise<string> {
    const [path, accept] = ["/.well-known/liabilities.json", "application/jose"];
    const query = { day };
    return this.#transport.call({ method: "GET", path, query, accept, public: true, options });
  }

  /**
   * Returns the chains, the venues with their fees (basis points) and the limits of the deployment.
   * Public.
   *
   * @example
   * ```ts
   * const { venues } = await client.config();
   * for (const venue of venues) console.log(venue.venue_id, `${venue.taker_fee_bps / 100} %`);
   * ```
   */
  config(options: CallOptions = {}): Promise<ServiceConfig> {
    return this.#transport.call({ method: "GET", path: "/config", public: true, options });
  }

  /**
   * Lists the markets by title and outcome: what an asset is and until when it trades. With `sort`
   * `volume` the questions that traded most in the last day are first. `q` searches for words in
   * title and outcome, `event_id` lists the outcomes of one question, `assets` up to 200 assets.
   * `test` lists those in which the operator tries the service, which are left out otherwise.
   * Public. Throws `Problem`: `invalid_request` for an `asset_id` or `assets` without `venue_id`.
   *
   * @example
   * ```ts
   * for await (const market of client.markets({ status: "open", q: "rain" }))
   *   console.log(market.title, market.outcome, market.venue_id, market.asset_id);
   * ```
   */
  markets(
    {
      limit,
      last_cursor,
      venue_id,
      asset_id,
      status,
      event_id,
      category,
      test,
      q,
      assets,
      sort,
    }: PageOptions &
      Partial<MarketAsset> & {
        status?: Market["status"];
        event_id?: string;
        category?: string;
        test?: boolean;
        q?: string;
        assets?: readonly string[];
        sort?: "title" | "volume";
      } = {},
    options: CallOptions = {},
  ): Pages<Market> {
    const page = { limit, last_cursor, venue_id, asset_id };
    const query = Object.assign(page, {
      status,
      event_id,
      category,
      q,
      test: test && "true",
      assets: assets === undefined ? undefined : String(assets),
      sort,
    });
    return new Pages(this.#transport, "/markets", query, options, { public: true });
  }

  /**
   * Opens the public stream of one book: a snapshot of its open requests, then every change. Needs
   * the scope read, and trade to send commands over the stream.
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
   * Opens the public stream of all books of a venue, or of up to 200 `assets`: a snapshot of their
   * open requests, then every change. With `assets` the numbers have gaps, where events of others
   * were left out. Needs the scope read, and trade to send commands over the stream.
   *
   * @example
   * ```ts
   * for await (const message of client.venueStream({ venue_id: "venue_one" })) {
   *   if (message.type === "snapshot") console.log(message.data.requests.length, "open requests");
   *   if (message.type === "request.closed") console.log(message.data.request_id);
   * }
   * ```
   */
  venueStream({
    venue_id,
    assets,
    ...options
  }: { venue_id: Venue; assets?: string[] } & StreamSettings): Stream {
    // Checked here, because the service would reject every upgrade with them.
    if (assets !== undefined && !ASSETS.test(String(assets)))
      throw new RangeError("`assets` must be 1 to 200 asset ids.");
    const query = { venue_id, ...(assets && { assets: String(assets) }) };
    return this.#stream("/rfq/stream", query, options);
  }

  /**
   * Opens the stream of the user's own events: requests, quotes, matches, deposits, withdrawals.
   * With `snapshot` it begins with all balances, the open requests and quotes and the unfinished
   * withdrawals, as they are at its `seq`, and again after a `resync`. Without it, read what you
   * need with the other methods. Needs the scope read, and trade to send commands over the stream.
   *
   * @example
   * ```ts
   * for await (const { type, seq, data } of client.accountStream({ snapshot: true })) {
   *   if (type === "snapshot") console.log(data.balances?.length, "balances at", seq);
   *   if (type === "match.created") console.log(data.role, data.usdc_amount, "after", seq);
   * }
   * ```
   */
  accountStream({ snapshot = false, ...settings }: AccountStreamSettings = {}): Stream {
    return this.#stream("/account/stream", snapshot ? { snapshot: "true" } : {}, settings);
  }

  /**
   * Reads the events of the account stream without a socket, oldest first, by default from the
   * oldest that is kept. `next_since` is the `since` of the next page, also for a filtered one.
   * Needs the scope read. Throws `Problem`: `events_gone` if they are older than two hours; read
   * your records, then continue with the problem's `last_seq`.
   *
   * @example
   * ```ts
   * let since: number | undefined;
   * for (;;) {
   *   const page = await client.accountEvents({ since, types: ["match.created"] });
   *   for (const { seq, data } of page.items) console.log(seq, data);
   *   since = page.next_since;
   *   if (since === page.last_seq) await new Promise((done) => setTimeout(done, 10_000));
   * }
   * ```
   */
  accountEvents(
    {
      since,
      types,
      limit,
    }: { since?: number | undefined; types?: AccountEvent["type"][]; limit?: number } = {},
    options: CallOptions = {},
  ): Promise<EventsPage> {
    return this.#transport.call({
      method: "GET",
      path: "/account/events",
      query: { since, types, limit },
      options,
    });
  }

  /**
   * Own open requests and quotes by id, kept current by an account stream, which all live maps of
   * this client share. A quote that has expired stays until the service has closed it, which
   * releases its reserve. Needs the scope read.
   *
   * @example
   * ```ts
   * const orders = client.orders();
   * orders.onChange(() => console.log(orders.size, "open requests and quotes"));
   * await orders.ready();
   * const own = orders.get(quote_id);
   * if (own !== undefined && "quote_id" in own) console.log("still open at", own.price);
   * ```
   */
  orders({ onDisconnect }: LiveSettings = {}): Live<string, Order> {
    return new Live(
      this.#live.view(({ orders }) => orders),
      (id) => id,
      onDisconnect,
    );
  }

  /**
   * All balances by asset, with null for USDC, kept current by an account stream, which all live
   * maps of this client share. Needs the scope read.
   *
   * @example
   * ```ts
   * const balances = client.balances();
   * await balances.ready();
   * console.log(balances.get(null)?.balance, "units of USDC are available");
   * ```
   */
  balances({ onDisconnect }: LiveSettings = {}): Live<MarketAsset | null, Balance> {
    return new Live(
      this.#live.view(({ balances }) => balances),
      assetKey,
      onDisconnect,
    );
  }

  /**
   * The open requests of a venue by id, each with your own open quotes on it, for makers. Needs a
   * key with the scopes read and trade, and two sockets. `label` names the quotes of this program:
   * only those count as its own.
   *
   * @example
   * ```ts
   * const requests = client.requests({ venue_id: "venue_one", cancel_on_disconnect: true });
   * await requests.keepQuoted(({ request_id }, side) =>
   *   requests.quote({ request_id, side, price: side === "Bid" ? 650_000 : 600_000 }),
   * );
   * ```
   */
  requests({ venue_id, assets, ...settings }: RequestsSettings): LiveRequests {
    const which = { venue_id, ...(assets && { assets }) };
    const { cancel_on_disconnect = false } = settings;
    return new LiveRequests(settings, {
      market: (onDisconnect) => this.venueStream({ ...which, onDisconnect }),
      account: (onDisconnect) =>
        this.accountStream({ snapshot: true, cancel_on_disconnect, onDisconnect }),
    });
  }

  #stream(
    path: string,
    query: Record<string, string>,
    { since, onDisconnect, signal, cancel_on_disconnect: armed = false }: StreamSettings,
  ): Stream {
    const { webSocket } = this.#options;
    const { clock, limits } = this.#transport;
    return new Stream({
      url: this.#transport.baseUrl.replace(/^http/, "ws") + path,
      query: armed ? { ...query, cancel_on_disconnect: "true" } : query,
      ticket: async () => {
        const [{ ticket }] = await Promise.all([this.#ticket(armed), clock.fresh(Infinity)]);
        return { ticket };
      },
      clock,
      limits,
      whyRefused: () => this.#whyRefused(path, query),
      webSocket,
      since,
      onDisconnect,
      signal,
    });
  }

  /** Throws what the service would, because a websocket does not report why it was rejected. */
  async #ticket(armed: boolean): Promise<Ticket> {
    const ticket = await this.auth.wsTicket();
    if (!armed || ticket.scopes.includes("trade")) return ticket;
    const detail = "The ticket lacks the scope trade, which cancel_on_disconnect needs.";
    throw new Problem({ code: "scope_missing", detail }, { status: 403 });
  }

  /**
   * Throws the reason for a rejected upgrade, which a websocket does not report, as far as plain
   * requests without a ticket meet it too. The stream's own path reports what is checked before the
   * upgrade (unknown path, rate limit, outage) and otherwise responds with `websocket_required`.
   * Then a read with the same credential, scope, venue and asset reports what is checked after it.
   */
  async #whyRefused(path: string, query: Record<string, string>): Promise<void> {
    try {
      await this.#transport.call({ method: "GET", path, public: true, once: true });
    } catch (error) {
      if (!(error instanceof Problem && error.code === "websocket_required")) throw error;
    }
    await this.#transport.call({
      method: "GET",
      path: "/rfq/request",
      query: { venue_id: query["venue_id"], asset_id: query["asset_id"], limit: 1 },
      once: true,
    });
  }
}

/** Asset ids, separated by commas. */
const ASSETS = /^0x[0-9a-f]{1,64}(,0x[0-9a-f]{1,64}){0,199}$/i;

/** Options of one stream, see `StreamOptions`. */
export type StreamSettings = Pick<StreamOptions, "since" | "onDisconnect" | "signal"> & {
  /**
   * Cancel the open quotes of the client's key when the connection ends or is silent for 30 s. They
   * stay only if the stream has reconnected before the service notices.
   * Needs a key with the scope trade. Default: false.
   */
  cancel_on_disconnect?: boolean;
};

/** Options of a live map. */
export type LiveSettings = Pick<StreamOptions, "onDisconnect">;

/** Options of the account stream. */
export type AccountStreamSettings = StreamSettings & {
  /** Whether a snapshot comes first. Default: false. */
  snapshot?: boolean;
};
