/**
 * Quotes as events change them: the maker's open ones and how the last ones ended, both newest
 * first, and the open ones on one's own request.
 */
import type { Quote, StreamMessage, StreamMessageOf } from "@rfq-custody/client";

export type QuoteEvent = StreamMessageOf<"quote.opened" | "quote.received" | "quote.closed">;
export type EndedQuote = Quote & { reason: string; winning_price: number | null };
export type OwnQuotes = { readonly open: readonly Quote[]; readonly ended: readonly EndedQuote[] };

export const OPEN_KEPT = 500;
const ENDED_KEPT = 100;

/** The response and the event of a quote may come in either order, even after its end. */
export function withOpened({ open, ended }: OwnQuotes, quote: Quote): OwnQuotes {
  const known = [...open, ...ended].some(({ quote_id }) => quote_id === quote.quote_id);
  return { open: known ? open : [quote, ...open].slice(0, OPEN_KEPT), ended };
}

export function afterEvents(before: OwnQuotes, events: readonly QuoteEvent[]): OwnQuotes {
  let { open, ended } = before;
  for (const { type, data } of events)
    if (type === "quote.opened") ({ open } = withOpened({ open, ended }, data));
    else if (type === "quote.closed") {
      const known = open.find(({ quote_id }) => quote_id === data.quote_id);
      if (known === undefined) continue;
      const { reason, winning_price = null } = data;
      open = open.filter((one) => one !== known);
      // A late reading may have opened it again.
      const others = ended.filter(({ quote_id }) => quote_id !== data.quote_id);
      ended = [{ ...known, reason, winning_price }, ...others].slice(0, ENDED_KEPT);
    }
  return { open, ended };
}

/** The open quotes on a request after events of its quotes. */
export function receivedAfter(
  before: readonly Quote[],
  events: readonly QuoteEvent[],
): readonly Quote[] {
  const open = new Map(before.map((quote) => [quote.quote_id, quote]));
  for (const { type, data } of events)
    if (type === "quote.received") open.set(data.quote_id, data);
    else if (type === "quote.closed") open.delete(data.quote_id);
  return [...open.values()];
}

export function isQuoteEvent(message: StreamMessage): message is QuoteEvent {
  return message.type.startsWith("quote.");
}

/** About a quote that somebody else made. Only the maker learns the price that won. */
export function isOfOthers({ type, data }: StreamMessage): boolean {
  return type === "quote.received" || (type === "quote.closed" && data.winning_price === undefined);
}
