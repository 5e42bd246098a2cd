/**
 * The wire form of RFQ events. A stored body is a `json_object` of the columns that the row type
 * lists.
 */
import { readUuid } from "../platform/sql.ts";
import type { EventViews } from "../streams/render.ts";
import {
  type MatchRow,
  matchView,
  type QuoteRow,
  quoteView,
  type RequestRow,
  requestView,
  type TradeRow,
  tradeView,
} from "./records.ts";

export const RFQ_EVENTS: EventViews = {
  "request.opened": (body) => requestView(stored<RequestRow>(body)),
  "request.closed": closedView,
  "quote.opened": (body) => quoteView(stored<QuoteRow>(body)),
  "quote.received": (body) => quoteView(stored<QuoteRow>(body)),
  "quote.closed": closedView,
  "match.created": (body) => matchView(stored<MatchRow>(body)),
  "trade.printed": (body) => tradeView(stored<TradeRow>(body)),
};

/** The ids, the reason and, to the maker of a quote, the price that won. */
function closedView(body: string): Record<string, unknown> {
  const row = stored<Record<string, unknown>>(body);
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      name.endsWith("_id") ? readUuid(String(value)) : value,
    ]),
  );
}

/** Safe cast: announce.ts builds each body from the columns of the row type. */
function stored<Row>(body: string): Row {
  return JSON.parse(body) as Row;
}
