/** The state of an account as its stream reports it. Pure, so that tests can cover every event. */
import type { StreamMessage, StreamMessageOf } from "./stream-messages.ts";
import type { Balance, MarketAsset, Match, Quote, QuoteRequest, Withdrawal } from "./types.ts";

/** An own open request or quote. Only a quote has a `quote_id`. */
export type Order = Omit<QuoteRequest, "best_price" | "best_prices" | "quote_count"> | Quote;

type Holder = { venue_id: string | null; asset_id: string | null };

const USDC: Holder = { venue_id: null, asset_id: null };

/** The key of an asset. The service ignores the case and leading zeros of an asset id. */
function balanceKey({ venue_id, asset_id }: Holder): string {
  return venue_id === null || asset_id === null
    ? "usdc"
    : `${venue_id}:${BigInt(asset_id).toString(16)}`;
}

/** What a message changed. `reload`: the state is incomplete, so a new snapshot is needed. */
export type Applied = "changed" | "same" | "reload";

/** Open requests and quotes, unfinished withdrawals and balances, as of the last message. */
export class LiveAccount {
  /** By request or quote id. */
  orders = new Map<string, Order>();
  /** By `balanceKey`. */
  balances = new Map<string, Balance>();
  #withdrawals = new Map<string, Withdrawal>();
  #parts: StreamMessageOf<"snapshot">["data"][] = [];

  apply(message: StreamMessage): Applied {
    switch (message.type) {
      case "hello":
      case "resync":
        // A connection that ended within a snapshot receives it from the start.
        this.#parts = [];
        return "same";
      case "snapshot":
        this.#parts.push(message.data);
        if (message.data.more) return "same";
        this.#replace();
        return "changed";
      case "request.opened":
        return this.#openRequest(message.data);
      case "request.closed":
        return this.orders.delete(message.data.request_id) ? "changed" : "same";
      case "quote.opened":
        return this.#openQuote(message.data);
      case "quote.closed":
        return this.#closeQuote(message.data);
      case "match.created":
        return this.#settle(message.data);
      case "deposit.credited":
        return this.#move(message.data, { available: message.data.amount });
      case "withdrawal.awaiting_approval":
      case "withdrawal.queued":
      case "withdrawal.submitted":
      case "withdrawal.settled":
      case "withdrawal.failed":
      case "withdrawal.cancelled":
        return this.#withdraw(message.data);
      default:
        return "same";
    }
  }

  #replace(): void {
    const parts = this.#parts.splice(0);
    this.orders = new Map();
    for (const request of parts.flatMap(({ requests }) => requests)) this.#openRequest(request);
    for (const quote of parts.flatMap(({ quotes }) => quotes ?? []))
      this.orders.set(quote.quote_id, quote);
    const balances = parts.flatMap((part) => part.balances ?? []);
    this.balances = new Map(balances.map((balance) => [balanceKey(balance), balance]));
    const withdrawals = parts.flatMap((part) => part.withdrawals ?? []);
    this.#withdrawals = new Map(withdrawals.map((it) => [it.withdrawal_id, it]));
  }

  /** Without its quotes' count and prices, because a snapshot has no received quotes. */
  #openRequest(request: QuoteRequest): Applied {
    const { best_price: _price, best_prices: _prices, quote_count: _count, ...order } = request;
    this.orders.set(request.request_id, order);
    return "changed";
  }

  #openQuote(quote: Quote): Applied {
    this.orders.set(quote.quote_id, quote);
    if (quote.reserve === null) return "changed";
    const { amount } = quote.reserve;
    return this.#move(quote.reserve, { available: -amount, pending: amount, promised: amount });
  }

  #closeQuote(closed: StreamMessageOf<"quote.closed">["data"]): Applied {
    const quote = this.orders.get(closed.quote_id);
    // A quote whose opening was missed held a reserve that is not known here. Only the maker's
    // message has `replaced_by`; the requester's needs no change.
    if (quote === undefined) return "replaced_by" in closed ? "reload" : "same";
    this.orders.delete(closed.quote_id);
    // The match of an accepted quote moves its reserve.
    if (closed.close_reason === "accepted" || !("reserve" in quote) || quote.reserve === null)
      return "changed";
    const { amount } = quote.reserve;
    return this.#move(quote.reserve, { available: amount, pending: -amount, promised: -amount });
  }

  /** The maker gives what the quote reserved. The requester gives what is available. */
  #settle(match: Match): Applied {
    const { role, side, amount, usdc_amount, fee } = match;
    const buys = (side === "Bid") === (role === "requester");
    const [given, cost] = buys ? [USDC, usdc_amount + fee] : [match, amount];
    const [received, gain] = buys ? [match, amount] : [USDC, usdc_amount - fee];
    this.#move(
      given,
      role === "maker" ? { pending: -cost, promised: -cost } : { available: -cost },
    );
    return this.#move(received, { available: gain });
  }

  #withdraw(withdrawal: Withdrawal): Applied {
    const { withdrawal_id, status, amount } = withdrawal;
    const known = this.#withdrawals.has(withdrawal_id);
    if (status === "settled" || status === "failed" || status === "cancelled") {
      // A restore rebuilds a payment as settled, without the steps before. One that was not paid
      // has moved nothing in the end.
      if (!this.#withdrawals.delete(withdrawal_id)) return status === "settled" ? "reload" : "same";
      return this.#move(withdrawal, {
        available: status === "settled" ? 0n : amount,
        pending: -amount,
      });
    }
    this.#withdrawals.set(withdrawal_id, withdrawal);
    return known ? "same" : this.#move(withdrawal, { available: -amount, pending: amount });
  }

  #move(
    holder: Holder,
    { available = 0n, pending = 0n, promised = 0n }: Record<string, bigint>,
  ): "changed" {
    const { venue_id, asset_id } = holder;
    const key = balanceKey(holder);
    const before = this.balances.get(key);
    this.balances.set(key, {
      venue_id: before?.venue_id ?? venue_id,
      asset_id: before?.asset_id ?? asset_id,
      balance: (before?.balance ?? 0n) + available,
      pending_balance: (before?.pending_balance ?? 0n) + pending,
      promised: (before?.promised ?? 0n) + promised,
    });
    return "changed";
  }
}

/** The key of a balance: an asset, or null for USDC. */
export const assetKey = (asset: MarketAsset | null): string => balanceKey(asset ?? USDC);
