/** Reads requests, quotes and matches: the part of `client.rfq` that changes nothing. */
import { type PageOptions, Pages } from "./pages.ts";
import type { CallOptions, Transport } from "./transport.ts";
import type {
  Candle,
  MarketAsset,
  Match,
  Position,
  Quote,
  QuoteRequest,
  RequestSide,
  Ticker,
  Trade,
} from "./types.ts";

/** A period of time. Both ends are inclusive. */
export type Period = { from?: Date | string; to?: Date | string };

type MatchId = { match_id: string } | { quote_id: string } | { request_id: string };

/**
 * Requests, quotes and matches by id and in lists. `Rfq` adds the commands.
 *
 * @example
 * ```ts
 * const match = await client.rfq.getMatch({ quote_id });
 * ```
 */
export class RfqRecords {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Returns one of the user's requests, or an open one of another user. Throws `Problem`:
   * `request_unknown`.
   *
   * @example
   * ```ts
   * const { status, best_price } = await client.rfq.getRequest(request);
   * ```
   */
  getRequest(
    { request_id }: { request_id: string },
    options: CallOptions = {},
  ): Promise<QuoteRequest> {
    return this.#get("/rfq/get-request", { request_id }, options);
  }

  /**
   * Lists the open requests of all users, newest first: of one book (both ids), of one venue, or of
   * all venues. Throws `Problem`: `invalid_request` for an `asset_id` without its `venue_id`.
   *
   * @example
   * ```ts
   * for await (const request of client.rfq.openRequests({ venue_id: "venue_one" })) {
   *   console.log(request.side, request.amount, request.expires_at);
   * }
   * ```
   */
  openRequests(
    { limit, last_cursor, venue_id, asset_id }: PageOptions & Partial<MarketAsset> = {},
    options: CallOptions = {},
  ): Pages<QuoteRequest> {
    return new Pages(
      this.#transport,
      "/rfq/request",
      { limit, last_cursor, venue_id, asset_id },
      options,
    );
  }

  /**
   * Lists the user's own requests, newest first, with `best_price` and `quote_count`: the open
   * ones, or with `status: "all"` all of them.
   *
   * @example
   * ```ts
   * const requests = await client.rfq.myRequests().all();
   * const quoted = requests.filter(({ quote_count = 0 }) => quote_count > 0);
   * ```
   */
  myRequests(
    {
      limit,
      last_cursor,
      status,
      venue_id,
      asset_id,
      label,
    }: PageOptions & Partial<MarketAsset> & { status?: "open" | "all"; label?: string } = {},
    options: CallOptions = {},
  ): Pages<QuoteRequest> {
    return new Pages(
      this.#transport,
      "/rfq/get-requests",
      { limit, last_cursor, status, venue_id, asset_id, label },
      options,
    );
  }

  /**
   * Returns one of the user's quotes, or a quote on one of their requests. Throws `Problem`:
   * `quote_unknown`.
   *
   * @example
   * ```ts
   * const { status } = await client.rfq.getQuote(quote);
   * ```
   */
  getQuote({ quote_id }: { quote_id: string }, options: CallOptions = {}): Promise<Quote> {
    return this.#get("/rfq/get-quote", { quote_id }, options);
  }

  /**
   * Lists the quotes on one of the user's own requests, the best price for the requester first.
   * Throws `Problem`: `request_unknown`, `not_request_owner`.
   *
   * @example
   * ```ts
   * const { request_id } = request;
   * const { items } = await client.rfq.quotes({ request_id, status: "open", limit: 1 }).page();
   * const best = items[0];
   * ```
   */
  quotes(
    {
      limit,
      last_cursor,
      request_id,
      side,
      status,
    }: PageOptions & { request_id: string; side?: RequestSide; status?: Quote["status"] },
    options: CallOptions = {},
  ): Pages<Quote> {
    const only = side === "TwoWay" ? undefined : side;
    return new Pages(
      this.#transport,
      "/rfq/quote",
      { limit, last_cursor, request_id, side: only, status },
      options,
    );
  }

  /**
   * Lists the user's own quotes, newest first.
   *
   * @example
   * ```ts
   * const open = await client.rfq.myQuotes({ status: "open" }).all();
   * ```
   */
  myQuotes(
    {
      limit,
      last_cursor,
      status,
      request_id,
      venue_id,
      asset_id,
      label,
    }: PageOptions &
      Partial<MarketAsset> & { status?: Quote["status"]; request_id?: string; label?: string } = {},
    options: CallOptions = {},
  ): Pages<Quote> {
    return new Pages(
      this.#transport,
      "/rfq/get-quotes",
      { limit, last_cursor, status, request_id, venue_id, asset_id, label },
      options,
    );
  }

  /**
   * Exports the user's requests or quotes that were opened on a UTC day and have ended. Lists show
   * them for an hour after their end. Throws `NoAnswer` if a response is incomplete.
   *
   * @example
   * ```ts
   * for await (const quote of client.rfq.exportRecords({ kind: "quotes", day: "2026-11-20" })) {
   *   console.log(quote.quote_id, quote.status);
   * }
   * ```
   */
  exportRecords<Kind extends "requests" | "quotes">(
    { kind, day, last_cursor }: { kind: Kind; day: string; last_cursor?: string },
    options: CallOptions = {},
  ): Pages<Kind extends "requests" ? QuoteRequest : Quote> {
    const [path, query] = ["/rfq/export-records", { kind, day, last_cursor }];
    return new Pages(this.#transport, path, query, options, { lines: true });
  }

  /**
   * Returns one of the user's matches, by its own id or by that of its quote or request. Throws
   * `Problem`: `match_unknown`.
   *
   * @example
   * ```ts
   * const { role, price } = await client.rfq.getMatch({ quote_id });
   * ```
   */
  getMatch(id: MatchId, options: CallOptions = {}): Promise<Match> {
    return this.#get("/rfq/get-match", oneMatchId(id), options);
  }

  /**
   * Returns the match as a receipt: a JWS that `verifyReceipt` reads, and that you can show to
   * others. Throws `Problem`: `match_unknown`.
   *
   * @example
   * ```ts
   * const receipt = await client.rfq.matchReceipt({ quote_id });
   * ```
   */
  matchReceipt(id: MatchId, options: CallOptions = {}): Promise<string> {
    const query = oneMatchId(id);
    const accept = "application/jose";
    return this.#transport.call({ method: "GET", path: "/rfq/get-match", query, accept, options });
  }

  /**
   * Lists the user's matches as requester and as maker, newest first.
   *
   * @example
   * ```ts
   * for await (const { role, side, amount, price } of client.rfq.matches())
   *   console.log(role, side, amount, price / 1e6);
   * ```
   */
  matches(
    {
      limit,
      last_cursor,
      venue_id,
      asset_id,
      label,
      role,
      from,
      to,
    }: PageOptions & Partial<MarketAsset> & Period & { role?: Match["role"]; label?: string } = {},
    options: CallOptions = {},
  ): Pages<Match> {
    return new Pages(
      this.#transport,
      "/rfq/get-matches",
      { limit, last_cursor, venue_id, asset_id, label, role, from, to },
      options,
    );
  }

  /**
   * Lists everyone's trades of the last 24 hours, newest first: of one book (both ids), of one
   * venue, or of all venues. They name no party. Public. Throws `Problem`: `invalid_request` for an
   * `asset_id` without its `venue_id`.
   *
   * @example
   * ```ts
   * const trades = client.rfq.trades({ venue_id: "venue_one", asset_id: "0xab", limit: 1 });
   * const { items } = await trades.page();
   * const lastPrice = items[0]?.price;
   * ```
   */
  trades(
    {
      limit,
      last_cursor,
      venue_id,
      asset_id,
      from,
      to,
    }: PageOptions & Partial<MarketAsset> & Period = {},
    options: CallOptions = {},
  ): Pages<Trade> {
    return new Pages(
      this.#transport,
      "/rfq/get-trades",
      { limit, last_cursor, venue_id, asset_id, from, to },
      options,
      { public: true },
    );
  }

  /**
   * Lists the outcome tokens that the user holds or has traded, by venue and asset: what was bought
   * and sold, what it cost and brought with fees, and the value at the last price. Deposits and
   * withdrawals change no sum. Throws `Problem`: `invalid_request` for an `asset_id` without its
   * `venue_id`.
   *
   * @example
   * ```ts
   * for await (const position of client.rfq.positions({ venue_id: "venue_one" }))
   *   console.log(position.asset_id, position.amount, position.average_price, position.realized);
   * ```
   */
  positions(
    { limit, last_cursor, venue_id, asset_id }: PageOptions & Partial<MarketAsset> = {},
    options: CallOptions = {},
  ): Pages<Position> {
    return new Pages(
      this.#transport,
      "/rfq/get-positions",
      { limit, last_cursor, venue_id, asset_id },
      options,
    );
  }

  /**
   * Lists what assets traded at in the last day: listed markets first, then the largest volume. An
   * asset whose volume changes while you read pages may be missing or come twice. The response may
   * be ten seconds old. Public.
   *
   * @example
   * ```ts
   * for await (const { asset_id, last_price } of client.rfq.tickers({ venue_id: "venue_one" }))
   *   console.log(asset_id, last_price);
   * ```
   */
  tickers(
    { limit, last_cursor, venue_id }: PageOptions & { venue_id?: string } = {},
    options: CallOptions = {},
  ): Pages<Ticker> {
    const query = { limit, last_cursor, venue_id };
    return new Pages(this.#transport, "/rfq/get-tickers", query, options, { public: true });
  }

  /**
   * Lists an asset's candles, newest first. A minute, hour or UTC day without a trade has none.
   * Those of a minute are kept for two days, those of an hour for 90 days. Public.
   *
   * @example
   * ```ts
   * const hours = client.rfq.candles({ venue_id: "venue_one", asset_id: "0xab", interval: "1h" });
   * for await (const { start, open, close } of hours) console.log(start, open, close);
   * ```
   */
  candles(
    {
      limit,
      last_cursor,
      venue_id,
      asset_id,
      interval,
      from,
      to,
    }: PageOptions & MarketAsset & Period & { interval: "1m" | "1h" | "1d" },
    options: CallOptions = {},
  ): Pages<Candle> {
    return new Pages(
      this.#transport,
      "/rfq/get-candles",
      { limit, last_cursor, venue_id, asset_id, interval, from, to },
      options,
      { public: true },
    );
  }

  #get<T>(path: string, query: Record<string, string>, options: CallOptions): Promise<T> {
    return this.#transport.call({ method: "GET", path, query, options });
  }
}

/** The service accepts exactly one of the ids, and a whole record contains several. */
function oneMatchId(id: MatchId): MatchId {
  if ("match_id" in id) return { match_id: id.match_id };
  return "quote_id" in id ? { quote_id: id.quote_id } : { request_id: id.request_id };
}
