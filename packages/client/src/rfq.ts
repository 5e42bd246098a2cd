/** Requests, quotes and matches: `client.rfq`. */
import { type PageOptions, Pages } from "./pages.ts";
import type { Transport } from "./transport.ts";
import type { MarketAsset, Match, Quote, QuoteRequest, Side, Venue } from "./types.ts";
import { only } from "./wire.ts";

/** What to ask a price for. */
export type RequestTerms = MarketAsset & {
  /** Native units of the asset, 1 or more. */
  amount: bigint;
  side: Side;
  /** Whether makers see your user id; false when left out. */
  disclose_identity?: boolean;
  /** 1–86 400; 300 when left out. */
  expires_in_secs?: number;
};

/** What to offer on a request. */
export type QuoteTerms = {
  request_id: string;
  /** 1–1 000 000: USDC per unit, scaled by 1e6. */
  price: number;
  /** 1–300; 30 when left out. */
  expires_in_secs?: number;
};

/** How a write is to be made. */
export type WriteOptions = {
  /**
   * Makes repeating safe for 24 h, also over several processes. When left out, the client makes one for the call, so that
   * its own repeats are safe.
   */
  idempotencyKey?: string;
};

/**
 * Asking for prices, quoting them, trading. Made by `Client`. Amounts are `bigint`s in native units, prices integers from 1 to
 * 1 000 000: USDC per unit, scaled by 1e6. Wherever one field is asked for, the whole record will do.
 *
 * @example
 * ```ts
 * const request = await client.rfq.request({ venue_id: "venue_one", asset_id: "0xab", amount: 1_000_000n, side: "Bid" });
 * const { items } = await client.rfq.quotes({ request_id: request.request_id, status: "open", limit: 1 }).page();
 * if (items[0] !== undefined) await client.rfq.accept(items[0]);
 * else await client.rfq.cancelRequest(request);
 * ```
 */
export class Rfq {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Asks makers for quotes. `Problem` `open_request_limit`, `venue_paused`.
   *
   * @example
   * ```ts
   * const request = await client.rfq.request({ venue_id: "venue_one", asset_id: "0xab", amount: 1_000_000n, side: "Bid" });
   * ```
   */
  request(body: RequestTerms, options: WriteOptions = {}): Promise<QuoteRequest> {
    return this.#write("/rfq/request", only(body, REQUEST_FIELDS), options);
  }

  /**
   * Open requests of everyone, newest first; of one venue, or of one book with both ids. `Problem` `invalid_request` for an
   * `asset_id` without its `venue_id`.
   *
   * @example
   * ```ts
   * for await (const request of client.rfq.openRequests({ venue_id: "venue_one" })) {
   *   console.log(request.side, request.amount, request.expires_at);
   * }
   * ```
   */
  openRequests({
    limit,
    last_cursor,
    venue_id,
    asset_id,
  }: PageOptions & Partial<MarketAsset> = {}): Pages<QuoteRequest> {
    return new Pages(this.#transport, "/rfq/request", { limit, last_cursor, venue_id, asset_id });
  }

  /**
   * The caller's open requests, newest first, with `best_price` and `quote_count`.
   *
   * @example
   * ```ts
   * const quoted = (await client.rfq.myRequests().all()).filter(({ quote_count = 0 }) => quote_count > 0);
   * ```
   */
  myRequests({ limit, last_cursor }: PageOptions = {}): Pages<QuoteRequest> {
    return new Pages(this.#transport, "/rfq/get-requests", { limit, last_cursor });
  }

  /**
   * Cancels a request, and with it the quotes on it. Repeating it is safe. `Problem` `request_unknown`, `not_request_owner`,
   * `request_not_open` (matched, with `body.match_id`), `request_expired`.
   *
   * @example
   * ```ts
   * for (const request of await client.rfq.myRequests().all()) await client.rfq.cancelRequest(request);
   * ```
   */
  cancelRequest({
    request_id,
  }: {
    request_id: string;
  }): Promise<{ request_id: string; status: "cancelled" }> {
    return this.#transport.call({
      method: "DELETE",
      path: "/rfq/request",
      body: { request_id },
      safe: true,
    });
  }

  /**
   * A firm quote: what you would deliver is set aside until it ends. `Problem` `request_unknown`, `own_request`,
   * `request_not_open`, `request_expired`, `venue_paused`, `open_quote_limit`, `insufficient_funds`.
   *
   * @example
   * ```ts
   * // 0.65 USDC for each unit, for a minute.
   * const quote = await client.rfq.quote({ request_id: request.request_id, price: 650_000, expires_in_secs: 60 });
   * ```
   */
  quote(body: QuoteTerms, options: WriteOptions = {}): Promise<Quote> {
    return this.#write("/rfq/quote", only(body, QUOTE_FIELDS), options);
  }

  /**
   * Quotes on one of the caller's requests, the best for the requester first. `Problem` `request_unknown`, `not_request_owner`.
   *
   * @example
   * ```ts
   * const { items } = await client.rfq.quotes({ request_id: request.request_id, status: "open", limit: 1 }).page();
   * const best = items[0];
   * ```
   */
  quotes({
    limit,
    last_cursor,
    request_id,
    status,
  }: PageOptions & { request_id: string; status?: Quote["status"] }): Pages<Quote> {
    return new Pages(this.#transport, "/rfq/quote", { limit, last_cursor, request_id, status });
  }

  /**
   * The caller's own quotes, newest first.
   *
   * @example
   * ```ts
   * const open = await client.rfq.myQuotes({ status: "open" }).all();
   * ```
   */
  myQuotes({
    limit,
    last_cursor,
    status,
  }: PageOptions & { status?: Quote["status"] } = {}): Pages<Quote> {
    return new Pages(this.#transport, "/rfq/get-quotes", { limit, last_cursor, status });
  }

  /**
   * Cancels a quote and releases its funds. Repeating it is safe. `Problem` `quote_unknown`, `not_quote_owner`, `quote_not_open`
   * (with `body.status`, and `body.match_id` when it was accepted).
   *
   * @example
   * ```ts
   * for await (const quote of client.rfq.myQuotes({ status: "open" })) await client.rfq.cancelQuote(quote);
   * ```
   */
  cancelQuote({
    quote_id,
  }: {
    quote_id: string;
  }): Promise<{ quote_id: string; status: "cancelled" }> {
    return this.#transport.call({
      method: "DELETE",
      path: "/rfq/quote",
      body: { quote_id },
      safe: true,
    });
  }

  /**
   * Cancels every fitting quote of the caller that was committed before it, all of them without a filter: stop quoting first.
   * Not repeated by the client: a second run may cancel what was quoted in between.
   *
   * @example
   * ```ts
   * const { cancelled } = await client.rfq.cancelQuotes({ venue_id: "venue_one" });
   * ```
   */
  cancelQuotes(
    filter: { venue_id?: Venue; asset_id?: string; request_id?: string } = {},
  ): Promise<{ cancelled: number }> {
    const { venue_id, asset_id, request_id } = filter;
    return this.#transport.call({
      method: "DELETE",
      path: "/rfq/quotes",
      body: { venue_id, asset_id, request_id },
    });
  }

  /**
   * Trades: both sides settle in one commit, the other quotes end. Repeating it answers the same match. `Problem`
   * `quote_unknown`, `not_request_owner`, `quote_not_open`, `request_not_open`, `quote_expired`, `venue_paused`,
   * `insufficient_funds` (with `body.available` and `body.required`), `balance_limit`.
   *
   * @example
   * ```ts
   * const match = await client.rfq.accept({ quote_id: quote.quote_id });
   * console.log(`paid ${match.usdc_amount + match.fee} units of USDC for ${match.amount}`);
   * ```
   */
  accept({ quote_id }: { quote_id: string }): Promise<Match> {
    return this.#transport.call({
      method: "POST",
      path: "/rfq/accept",
      body: { quote_id },
      safe: true,
    });
  }

  /**
   * The caller's matches on either side, newest first.
   *
   * @example
   * ```ts
   * for await (const { role, side, amount, price } of client.rfq.matches()) console.log(role, side, amount, price / 1e6);
   * ```
   */
  matches({ limit, last_cursor }: PageOptions = {}): Pages<Match> {
    return new Pages(this.#transport, "/rfq/get-matches", { limit, last_cursor });
  }

  #write<T>(
    path: string,
    body: object,
    { idempotencyKey = crypto.randomUUID() }: WriteOptions,
  ): Promise<T> {
    // In the body, so that a signature covers it.
    return this.#transport.call({
      method: "POST",
      path,
      body: { ...body, idempotency_key: idempotencyKey },
      safe: true,
    });
  }
}

const REQUEST_FIELDS: Record<keyof RequestTerms, true> = {
  venue_id: true,
  asset_id: true,
  amount: true,
  side: true,
  disclose_identity: true,
  expires_in_secs: true,
};

const QUOTE_FIELDS: Record<keyof QuoteTerms, true> = {
  request_id: true,
  price: true,
  expires_in_secs: true,
};
