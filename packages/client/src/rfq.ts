/** Requests, quotes and matches: `client.rfq`. */
import { RfqProtection } from "./rfq-protection.ts";
import type { CallOptions, Transport } from "./transport.ts";
import type {
  MarketAsset,
  Match,
  Quote,
  QuoteRequest,
  QuoteResult,
  RequestSide,
  RequestSize,
  Side,
  Venue,
} from "./types.ts";
import { pick } from "./wire.ts";

/** What to request quotes for: an `amount` or a `usdc_amount`. */
export type RequestTerms = MarketAsset &
  RequestSize & {
    side: RequestSide;
    /**
     * With `usdc_amount`: the present fee is taken out of it, so a buyer pays no more in all.
     * Default: false.
     */
    fees_included?: boolean;
    /**
     * The worst price, before fees, at which the commit that places a quote accepts it for you.
     * Makers do not see it. `setAcceptPrice` changes or removes it.
     */
    accept_price?: number | null;
    /** `Bid` or `Ask`, with `accept_price` on a two-way request. */
    accept_side?: Side | null;
    /** Whether makers see your user id. Default: false. */
    disclose_identity?: boolean;
    /** 1 to 86 400. Default: 300. */
    expires_in_secs?: number;
    /** Your own name for it, 1 to 64 visible ASCII characters without `'`. Nobody else sees it. */
    label?: string | null;
    /** The command takes effect before this instant by the service's clock, or never. */
    not_after?: Date | string;
  };

/** What to offer on a request. */
export type QuoteTerms = {
  request_id: string;
  /** USDC per unit, scaled by 1e6: an integer from 1 to 1 000 000. */
  price: number;
  /**
   * `Bid` or `Ask` on a two-way request, where a maker may quote both. Elsewhere not needed.
   * `TwoWay`, as in a whole request, names none.
   */
  side?: RequestSide;
  /**
   * Id of your quote on the same request and side that this one replaces in one commit. The new
   * quote may use its reserve. If the new one is rejected, the old one stays open.
   */
  replaces?: string;
  /** 1 to 300, counted from when the service received the quote. Default: 30. */
  expires_in_secs?: number;
  /** You mean the price, although it is beyond `max_deviation`. Default: false. */
  confirm_price?: boolean;
  /**
   * What the quote reserves on a paired market. Of a Bid: `asset`, or `usdc`, of which the match
   * makes both tokens and you get the complement. Of an Ask: USDC, or with `complement` that token,
   * and the match turns both tokens into USDC. Default: `asset`, which on an Ask means USDC.
   */
  backing?: "asset" | "usdc" | "complement";
  /** Your own name for it, 1 to 64 visible ASCII characters without `'`. Nobody else sees it. */
  label?: string | null;
  /** The command takes effect before this instant by the service's clock, or never. */
  not_after?: Date | string;
};

/** Several quotes and their deadline. */
export type SeveralQuotes = {
  /** At most 50, and 20 over a socket. */
  quotes: readonly (Omit<QuoteTerms, "not_after"> & { idempotency_key?: string })[];
  /** The quotes take effect before this instant by the service's clock, or never. */
  not_after?: Date | string;
};

/** Which quote to accept, or on which request the best one, and at which price. */
export type AcceptTerms = ({ quote_id: string } | AcceptPrice) & {
  /** The command takes effect before this instant by the service's clock, or never. */
  not_after?: Date | string;
};

/** The best open quote is accepted, of equal prices the oldest, or none. */
type AcceptPrice = {
  request_id: string;
  /** The worst price that you accept, scaled by 1e6. */
  price: number;
  /** `Bid` to buy, `Ask` to sell: required on a two-way request. */
  side?: Side;
  quote_id?: undefined;
};

/** A record of a quote has a request and a price, too. */
export function acceptBody(terms: AcceptTerms): object {
  const { not_after } = terms;
  if (terms.quote_id !== undefined) return { quote_id: terms.quote_id, not_after };
  const { request_id, price, side } = terms;
  return { request_id, price, side, not_after };
}

/** Options of a write. */
export type WriteOptions = CallOptions & {
  /**
   * Makes a repeated call within an hour return the first result, also from another process. By
   * default the client generates a key for each call, so that its own retries are safe.
   */
  idempotencyKey?: string;
};

/** Options of a quote. */
export type QuoteOptions = WriteOptions & {
  /**
   * Milliseconds from now within which the quote must be placed. Sets its `not_after`, by the
   * service's clock, unless the terms have one. After that the client does not send it again.
   * Default: 1 000. `Infinity`: no deadline.
   */
  maxAgeMs?: number;
};

/** The default of `QuoteOptions.maxAgeMs`. */
export const QUOTE_MAX_AGE_MS = 1_000;

/**
 * Requests, quotes and trades. Created by `Client` as `client.rfq`. Amounts are `bigint`s in native
 * units. Prices are integers from 1 to 1 000 000: USDC per unit, scaled by 1e6. A method that needs
 * one field of a record accepts the whole record.
 *
 * @example
 * ```ts
 * const request = await client.rfq.request({
 *   venue_id: "venue_one",
 *   asset_id: "0xab",
 *   amount: 1_000_000n,
 *   side: "Bid",
 * });
 * const { request_id } = request;
 * const { items } = await client.rfq.quotes({ request_id, status: "open", limit: 1 }).page();
 * if (items[0] !== undefined) await client.rfq.accept(items[0]);
 * else await client.rfq.cancelRequest(request);
 * ```
 */
export class Rfq extends RfqProtection {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    super(transport);
    this.#transport = transport;
  }

  /**
   * Opens a request for quotes. Throws `Problem`: `open_request_limit`, `daily_limit`,
   * `venue_paused`.
   *
   * @example
   * ```ts
   * const request = await client.rfq.request({
   *   venue_id: "venue_one",
   *   asset_id: "0xab",
   *   amount: 1_000_000n,
   *   side: "Bid",
   * });
   * ```
   */
  request(body: RequestTerms, options: WriteOptions = {}): Promise<QuoteRequest> {
    return this.#write("/rfq/request", pick(body, REQUEST_FIELDS), options);
  }

  /**
   * Cancels a request and the quotes on it. Idempotent, so the client retries it. Throws `Problem`:
   * `request_unknown`, `not_request_owner`, `request_not_open` (matched, with `body.match_id`),
   * `request_expired`.
   *
   * @example
   * ```ts
   * for (const request of await client.rfq.myRequests().all())
   *   await client.rfq.cancelRequest(request);
   * ```
   */
  cancelRequest(
    {
      request_id,
    }: {
      request_id: string;
    },
    options: CallOptions = {},
  ): Promise<{ request_id: string; status: "cancelled" }> {
    return this.#transport.call({
      method: "DELETE",
      path: "/rfq/request",
      body: { request_id },
      idempotent: true,
      options,
    });
  }

  /**
   * Places a firm quote and reserves what the maker would deliver until the quote ends. If it is
   * not placed within `maxAgeMs`, it is never placed, however long it was on its way. Throws
   * `Problem`: `request_unknown`, `own_request`, `request_not_open`, `request_expired`,
   * `deadline_passed`, `venue_paused`, `open_quote_limit`, `insufficient_funds`. After `NoAnswer`
   * it may have been placed within that time.
   *
   * @example
   * ```ts
   * // 0.65 USDC per unit, for one minute.
   * const quote = await client.rfq.quote({
   *   request_id: request.request_id,
   *   price: 650_000,
   *   expires_in_secs: 60,
   * });
   * ```
   */
  quote(
    body: QuoteTerms,
    { maxAgeMs = QUOTE_MAX_AGE_MS, ...options }: QuoteOptions = {},
  ): Promise<Quote> {
    return this.#write("/rfq/quote", quoteFields(body), options, maxAgeMs);
  }

  /**
   * Cancels a quote and releases its reserve. Idempotent, so the client retries it. Throws
   * `Problem`: `quote_unknown`, `not_quote_owner`, `quote_not_open` (with `body.status`, and
   * `body.match_id` if it was accepted).
   *
   * @example
   * ```ts
   * const quotes = client.rfq.myQuotes({ status: "open" });
   * for await (const quote of quotes) await client.rfq.cancelQuote(quote);
   * ```
   */
  cancelQuote(
    {
      quote_id,
    }: {
      quote_id: string;
    },
    options: CallOptions = {},
  ): Promise<{ quote_id: string; status: "cancelled" }> {
    return this.#transport.call({
      method: "DELETE",
      path: "/rfq/quote",
      body: { quote_id },
      idempotent: true,
      options,
    });
  }

  /**
   * Cancels all of the user's open quotes, or those that match every given field. A quote still in
   * flight can be placed after it, so stop quoting first. The client does not retry it after a lost
   * response, because a second call could cancel newer quotes.
   *
   * @example
   * ```ts
   * const { cancelled } = await client.rfq.cancelQuotes({ venue_id: "venue_one" });
   * ```
   */
  cancelQuotes(
    filter: {
      venue_id?: Venue;
      asset_id?: string;
      request_id?: string;
      label?: string | null;
    } = {},
    options: CallOptions = {},
  ): Promise<{ cancelled: number }> {
    const { venue_id, asset_id, request_id } = filter;
    const label = filter.label ?? undefined;
    return this.#transport.call({
      method: "DELETE",
      path: "/rfq/quotes",
      body: { venue_id, asset_id, request_id, label },
      options,
    });
  }

  /**
   * Accepts a quote, or the best one on a request at a price or better. Both sides settle in one
   * commit and the other quotes on the request end. Idempotent: a repeated call returns the same
   * match. Throws `Problem`: `quote_unknown`, `not_request_owner`, `quote_not_open`,
   * `request_not_open`, `quote_expired`, `venue_paused`, `no_quote_within` (with
   * `body.best_price`), `insufficient_funds` (with `body.available` and `body.required`),
   * `balance_limit`.
   *
   * @example
   * ```ts
   * const match = await client.rfq.accept({ quote_id: quote.quote_id });
   * console.log(`paid ${match.usdc_amount + match.fee} units of USDC for ${match.amount}`);
   * await client.rfq.accept({ request_id: request.request_id, price: 500_000 });
   * ```
   */
  accept(terms: AcceptTerms, options: CallOptions = {}): Promise<Match> {
    return this.#transport.call({
      method: "POST",
      path: "/rfq/accept",
      body: acceptBody(terms),
      idempotent: true,
      options,
    });
  }

  /**
   * Sets, changes or removes (null) the price at which your request accepts a quote. If an open
   * quote is as good, it is accepted at once. Later the commit that places such a quote accepts it,
   * with the credential of this call. Idempotent. Throws `Problem`: `request_unknown`,
   * `not_request_owner`, `request_not_open` (with `body.match_id`), `request_expired`,
   * `side_mismatch`.
   *
   * @example
   * ```ts
   * const { request_id } = request;
   * const { match } = await client.rfq.setAcceptPrice({ request_id, accept_price: 500_000 });
   * ```
   */
  setAcceptPrice(
    {
      request_id,
      accept_price,
      accept_side,
    }: { request_id: string; accept_price: number | null; accept_side?: Side | null },
    options: CallOptions = {},
  ): Promise<{ request_id: string; accept_price: number | null; match: Match | null }> {
    return this.#transport.call({
      method: "POST",
      path: "/rfq/accept-price",
      body: { request_id, accept_price, accept_side: accept_side ?? undefined },
      idempotent: true,
      options,
    });
  }

  /**
   * Places up to 50 quotes. Each succeeds or fails alone, so read each result. They are in the
   * order of the quotes. Quotes on one asset are placed in one commit. As with `quote`, what is not
   * placed within `maxAgeMs` is never placed. Throws `Problem` if nothing was placed:
   * `invalid_request`, `rate_limited`.
   *
   * @example
   * ```ts
   * const { items } = await client.rfq.openRequests({ venue_id: "venue_one", limit: 50 }).page();
   * const { results } = await client.rfq.quoteMany({
   *   quotes: items.map(({ request_id }) => ({ request_id, price: 650_000 })),
   * });
   * for (const { quote, problem } of results) console.log(quote?.quote_id ?? problem?.code);
   * ```
   */
  quoteMany(
    body: SeveralQuotes,
    { maxAgeMs = QUOTE_MAX_AGE_MS, ...options }: CallOptions & { maxAgeMs?: number } = {},
  ): Promise<{ results: QuoteResult[] }> {
    return this.#transport.call({
      method: "POST",
      path: "/rfq/quotes",
      body: { quotes: quoteItems(body), not_after: body.not_after },
      idempotent: true,
      options,
      maxAgeMs,
    });
  }

  #write<T>(
    path: string,
    body: object,
    { idempotencyKey = crypto.randomUUID(), ...options }: WriteOptions,
    maxAgeMs = Infinity,
  ): Promise<T> {
    // The key is in the body, so that the signature covers it.
    return this.#transport.call({
      method: "POST",
      path,
      body: { ...body, idempotency_key: idempotencyKey },
      idempotent: true,
      options,
      maxAgeMs,
    });
  }
}

const REQUEST_FIELDS: Record<keyof RequestTerms, true> = {
  venue_id: true,
  asset_id: true,
  amount: true,
  usdc_amount: true,
  side: true,
  disclose_identity: true,
  expires_in_secs: true,
  fees_included: true,
  accept_price: true,
  accept_side: true,
  label: true,
  not_after: true,
};

/** The fields that the service takes. A whole two-way request does not name the quote's side. */
export function quoteFields(terms: QuoteTerms): Partial<QuoteTerms> {
  const { side, ...fields } = pick<QuoteTerms>(terms, QUOTE_FIELDS);
  return side === undefined || side === "TwoWay" ? fields : { ...fields, side };
}

/** The quotes with an idempotency key each, so that a repeated call has no second effect. */
export function quoteItems({ quotes = [] }: Partial<SeveralQuotes>): object[] {
  return quotes.map((quote) => ({
    ...quoteFields(quote),
    not_after: undefined,
    idempotency_key: quote.idempotency_key ?? crypto.randomUUID(),
  }));
}

const QUOTE_FIELDS: Record<keyof QuoteTerms, true> = {
  request_id: true,
  price: true,
  side: true,
  replaces: true,
  expires_in_secs: true,
  confirm_price: true,
  backing: true,
  label: true,
  not_after: true,
};
