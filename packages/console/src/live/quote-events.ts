/** The maker's open quotes and how the last ones ended, both newest first, as events change them. */
import type { Quote, StreamMessageOf } from "@rfq-custody/client";

export type QuoteEvent = StreamMessageOf<"quote.opened"> | StreamMessageOf<"quote.closed">;
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
    else {
      const known = open.find(({ quote_id }) => quote_id === data.quote_id);
      if (known === undefined) continue;
      const { reason, winning_price = null } = data;
      open = open.filter((one) => one !== known);
      ended = [{ ...known, reason, winning_price }, ...ended].slice(0, ENDED_KEPT);
    }
  return { open, ended };
}
