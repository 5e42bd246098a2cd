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
} from "./records.ts";

export const RFQ_EVENTS: EventViews = {
  "request.opened": (body) => requestView(stored<RequestRow>(body)),
  "request.closed": closedView,
  "quote.opened": (body) => quoteView(stored<QuoteRow>(body)),
  "quote.received": (body) => quoteView(stored<QuoteRow>(body)),
  "quote.closed": closedView,
  "match.created": (body) => matchView(stored<MatchRow>(body)),
};

/** `request_id`, for a quote also `quote_id`, and the reason. */
function closedView(body: string): Record<string, string> {
  const row = stored<Record<string, string>>(body);
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      name.endsWith("_id") ? readUuid(value) : value,
    ]),
  );
}

/** Safe cast: announce.ts builds each body from the columns of the row type. */
function stored<Row>(body: string): Row {
  return JSON.parse(body) as Row;
}
