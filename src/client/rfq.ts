/** Requests, quotes and matches: `client.rfq`. */
import { type PageOptions, Pages } from "./pages.ts";
import type { Transport } from "./transport.ts";
import type { MarketAsset, Match, Quote, QuoteRequest, Side, Venue } from "./types.ts";

export type RequestTerms = MarketAsset & {
  /** Native units of the asset, 1 or more. */
  amount: bigint;
  side: Side;
  /** Whether makers see your user id; false when left out. */
  disclose_identity?: boolean;
  /** 1–86 400; 300 when left out. */
  expires_in_secs?: number;
};

export type QuoteTerms = {
  request_id: string;
  /** 1–1 000 000: USDC per unit, scaled by 1e6. */
  price: number;
  /** 1–300; 30 when left out. */
  expires_in_secs?: number;
};

export type WriteOptions = {
  /**
   * Makes repeating safe for 24 h, also over several processes. When left out, the client makes one for the call, so that
   * its own repeats are safe.
   */
  idempotencyKey?: string;
};

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
    return this.#write("/rfq/request", body, options);
  }

  /** Open requests of everyone, newest first. */
  openRequests(filter: PageOptions & Partial<MarketAsset> = {}): Pages<QuoteRequest> {
    return new Pages(this.#transport, "/rfq/request", filter);
  }

  /** The caller's open requests, with `best_price` and `quote_count`. */
  myRequests(options: PageOptions = {}): Pages<QuoteRequest> {
    return new Pages(this.#transport, "/rfq/get-requests", options);
  }

  /** `Problem` `request_unknown`, `not_request_owner`, `request_not_open` (matched), `request_expired`. */
  cancelRequest(body: { request_id: string }): Promise<{ request_id: string; status: "cancelled" }> {
    return this.#transport.call({ method: "DELETE", path: "/rfq/request", body, safe: true });
  }

  /**
   * A firm quote: what you would deliver is set aside until it ends. `Problem` `request_unknown`, `own_request`,
   * `request_not_open`, `request_expired`, `open_quote_limit`, `insufficient_funds`.
   */
  quote(body: QuoteTerms, options: WriteOptions = {}): Promise<Quote> {
    return this.#write("/rfq/quote", body, options);
  }

  /** Quotes on one of the caller's requests, the best first. `Problem` `not_request_owner`. */
  quotes(filter: PageOptions & { request_id: string; status?: Quote["status"] }): Pages<Quote> {
    return new Pages(this.#transport, "/rfq/quote", filter);
  }

  /** The caller's own quotes, newest first. */
  myQuotes(options: PageOptions & { status?: Quote["status"] } = {}): Pages<Quote> {
    return new Pages(this.#transport, "/rfq/get-quotes", options);
  }

  cancelQuote(body: { quote_id: string }): Promise<{ quote_id: string; status: "cancelled" }> {
    return this.#transport.call({ method: "DELETE", path: "/rfq/quote", body, safe: true });
  }

  /** Cancels every fitting quote that was committed before it: stop quoting first. */
  cancelQuotes(filter: { venue_id?: Venue; asset_id?: string; request_id?: string } = {}): Promise<{ cancelled: number }> {
    return this.#transport.call({ method: "DELETE", path: "/rfq/quotes", body: filter });
  }

  /**
   * Trades: both sides settle in one commit, the other quotes end. Repeating it answers the same match. `Problem`
   * `quote_expired`, `quote_not_open`, `request_not_open`, `not_request_owner`, `insufficient_funds`.
   */
  accept(body: { quote_id: string }): Promise<Match> {
    return this.#transport.call({ method: "POST", path: "/rfq/accept", body, safe: true });
  }

  /** The caller's matches on either side, newest first. */
  matches(options: PageOptions = {}): Pages<Match> {
    return new Pages(this.#transport, "/rfq/get-matches", options);
  }

  #write<T>(path: string, body: object, { idempotencyKey = crypto.randomUUID() }: WriteOptions): Promise<T> {
    // In the body, so that a signature covers it.
    return this.#transport.call({ method: "POST", path, body: { ...body, idempotency_key: idempotencyKey }, safe: true });
  }
}
