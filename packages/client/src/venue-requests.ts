/** The open requests of a venue, with one's own quotes on them. Pure, so that tests need no stream. */
import type { Applied } from "./live-account.ts";
import { Problem } from "./problem.ts";
import type { StreamMessage, StreamMessageOf } from "./stream-messages.ts";
import type { Quote, QuoteRequest, Side } from "./types.ts";

/** A request without an own quote is tried again after this time, because funds may be there. */
const RETRY_MS = 1_000;
/** How far apart such tries are, so that many requests that cannot be quoted cost little. */
const RETRY_SPACING_MS = 100;

/** An open request of somebody else, with your own open quotes on it. */
export type OpenRequest = { request: QuoteRequest; quotes: readonly Quote[] };

/** A side of an open request without an own open quote. */
export type Unquoted = { request: QuoteRequest; side: Side };

/** What ends a request for its makers. Its own message may arrive later. */
const ENDS_REQUEST = new Set([
  "own_request",
  "request_expired",
  "request_not_open",
  "request_unknown",
]);

export type From = "market" | "account";

/** What one stream has sent: the parts of its snapshot, and whether it is connected and complete. */
type Half = { parts: StreamMessageOf<"snapshot">["data"][]; hasSnapshot: boolean; live: boolean };

export class VenueRequests {
  /** By id. Without the user's own, which cannot be quoted. */
  open = new Map<string, OpenRequest>();
  readonly #label: string | undefined;
  readonly #halves: Record<From, Half> = {
    market: { parts: [], hasSnapshot: false, live: false },
    account: { parts: [], hasSnapshot: false, live: false },
  };
  #ownRequests = new Set<string>();
  #quotes = new Map<string, Quote>();
  /** Quotes that ended while commands were in flight, whose results may arrive later. */
  readonly #ended = new Set<string>();
  #inFlight = 0;
  /** When a side may be tried again. Infinity while it is being quoted. */
  readonly #tried = new Map<string, number>();
  #retryAt = 0;

  /** `label`: only quotes with it count as one's own. */
  constructor(label?: string) {
    this.#label = label;
  }

  get hasSnapshot(): boolean {
    return this.#halves.market.hasSnapshot && this.#halves.account.hasSnapshot;
  }

  lost(from: From): void {
    this.#halves[from].live = false;
  }

  apply(from: From, message: StreamMessage): Applied {
    const half = this.#halves[from];
    switch (message.type) {
      case "hello":
        half.parts = [];
        half.live = half.hasSnapshot;
        for (const [key, again] of this.#tried) if (again < Infinity) this.#tried.delete(key);
        return "changed";
      case "resync":
        half.parts = [];
        half.live = half.hasSnapshot = false;
        return "same";
      case "snapshot":
        half.parts.push(message.data);
        if (message.data.more) return "same";
        half.live = half.hasSnapshot = true;
        this.#replace(from, half.parts.splice(0));
        return "changed";
      default:
        return from === "market" ? this.#applyMarket(message) : this.#applyAccount(message);
    }
  }

  #applyMarket(message: StreamMessage): Applied {
    if (message.type === "request.opened") this.#openRequest(message.data);
    else if (message.type === "request.closed") this.#drop(message.data.request_id);
    else return "same";
    return "changed";
  }

  #applyAccount(message: StreamMessage): Applied {
    switch (message.type) {
      case "request.opened":
        this.#ownRequests.add(message.data.request_id);
        this.#drop(message.data.request_id);
        return "changed";
      case "request.closed":
        this.#ownRequests.delete(message.data.request_id);
        this.#drop(message.data.request_id);
        return "changed";
      case "quote.opened":
        this.#openQuote(message.data);
        return "changed";
      case "quote.closed":
        this.#closeQuote(message.data);
        return "changed";
      default:
        return "same";
    }
  }

  #replace(from: From, parts: Half["parts"]): void {
    const requests = parts.flatMap((part) => part.requests);
    if (from === "market") {
      this.open = new Map();
      for (const request of requests) this.#openRequest(request);
      for (const key of this.#tried.keys())
        if (!this.open.has(key.slice(0, key.indexOf(" ")))) this.#tried.delete(key);
      return;
    }
    this.#ownRequests = new Set(requests.map(({ request_id }) => request_id));
    for (const id of this.#ownRequests) this.#drop(id);
    this.#quotes = new Map();
    for (const quote of parts.flatMap(({ quotes }) => quotes ?? []))
      if (quote.status === "open" && this.#isOwn(quote)) this.#quotes.set(quote.quote_id, quote);
    for (const id of this.open.keys()) this.#showQuotes(id);
  }

  #openRequest(request: QuoteRequest): void {
    if (this.#ownRequests.has(request.request_id)) return;
    this.open.set(request.request_id, { request, quotes: [] });
    this.#showQuotes(request.request_id);
  }

  #drop(requestId: string): void {
    this.open.delete(requestId);
    for (const side of ["Bid", "Ask"]) this.#tried.delete(`${requestId} ${side}`);
  }

  #isOwn({ label }: Quote): boolean {
    return this.#label === undefined || label === this.#label;
  }

  #openQuote(quote: Quote): void {
    if (this.#ended.has(quote.quote_id) || !this.#isOwn(quote)) return;
    this.#quotes.set(quote.quote_id, quote);
    this.#showQuotes(quote.request_id);
  }

  #closeQuote({ quote_id, request_id, reason }: StreamMessageOf<"quote.closed">["data"]): void {
    const quote = this.#quotes.get(quote_id);
    this.#quotes.delete(quote_id);
    if (this.#inFlight > 0) this.#ended.add(quote_id);
    this.#showQuotes(request_id);
    // The request has ended, whose own message may arrive later.
    if (reason === "accepted" || reason === "rejected") this.#drop(request_id);
    // The quote that replaces it opens in the same commit.
    else if (quote !== undefined && reason !== "replaced")
      this.#free(`${request_id} ${quote.side}`);
  }

  #showQuotes(requestId: string): void {
    const entry = this.open.get(requestId);
    if (entry === undefined) return;
    const quotes = [...this.#quotes.values()].filter(({ request_id }) => request_id === requestId);
    this.open.set(requestId, { ...entry, quotes });
  }

  /** Allows another try at once, unless one is in progress. */
  #free(key: string): void {
    if (this.#tried.get(key) !== Infinity) this.#tried.delete(key);
  }

  /** Follows a command that places a quote, whose result may arrive before or after its events. */
  async track(requestId: string, placing: Promise<Quote>): Promise<Quote> {
    this.#inFlight += 1;
    try {
      const quote = await placing;
      this.#openQuote(quote);
      return quote;
    } catch (error) {
      if (error instanceof Problem && ENDS_REQUEST.has(error.code)) this.#drop(requestId);
      throw error;
    } finally {
      this.#inFlight -= 1;
      if (this.#inFlight === 0) this.#ended.clear();
    }
  }

  /**
   * Takes up to `room` sides to quote at `now`, in milliseconds: those that were never tried, and
   * at most one that was tried without success. None while a connection is lost, because quotes may
   * have ended. Each must be given back by `settled`.
   */
  take(now: number, room: number): Unquoted[] {
    if (!this.#halves.market.live || !this.#halves.account.live) return [];
    const fresh: Unquoted[] = [];
    let oldest: { at: number; side: Unquoted } | null = null;
    for (const { request, quotes } of this.open.values())
      for (const side of sidesOf(request)) {
        if (fresh.length >= room) break;
        if (quotes.some((quote) => quote.side === side)) continue;
        const at = this.#tried.get(keyOf({ request, side }));
        if (at === undefined) fresh.push({ request, side });
        else if (at <= now && at < (oldest?.at ?? Infinity))
          oldest = { at, side: { request, side } };
      }
    if (oldest !== null && fresh.length < room && now >= this.#retryAt) {
      this.#retryAt = now + RETRY_SPACING_MS;
      fresh.push(oldest.side);
    }
    for (const side of fresh) this.#tried.set(keyOf(side), Infinity);
    return fresh;
  }

  settled(side: Unquoted, now: number): void {
    if (this.#tried.has(keyOf(side))) this.#tried.set(keyOf(side), now + RETRY_MS);
  }
}

const keyOf = ({ request, side }: Unquoted): string => `${request.request_id} ${side}`;

const sidesOf = ({ side }: QuoteRequest): readonly Side[] =>
  side === "TwoWay" ? ["Bid", "Ask"] : [side];
