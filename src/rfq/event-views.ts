/**
 * The wire form of RFQ events. A stored body is a `json_object` of the columns that the row type
 * lists.
 */
import { readUuid } from "../platform/sql.ts";
import type { EventViews } from "../streams/render.ts";
import { protectionEventView, type ProtectionRow } from "./protection-record.ts";
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
  "request.closed": requestClosedView,
  "quote.opened": (body) => quoteView(stored<QuoteRow>(body)),
  "quote.received": (body) => quoteView(stored<QuoteRow>(body)),
  "quote.closed": quoteClosedView,
  "protection.tripped": (body) => protectionEventView(stored<ProtectionRow>(body)),
  "protection.reset": (body) => protectionEventView(stored<ProtectionRow>(body)),
  "match.created": (body) => matchView(stored<MatchRow>(body)),
  "trade.printed": (body) => tradeView(stored<TradeRow>(body)),
};

function requestClosedView(body: string) {
  const row = stored<{ request_id: string; reason: string }>(body);
  return { ...row, request_id: readUuid(row.request_id) };
}

type QuoteClosed = {
  readonly quote_id: string;
  readonly request_id: string;
  readonly reason: string;
  /** These are sent only to the maker. */
  readonly replaced_by?: string | null;
  readonly label?: string | null;
  readonly winning_price?: number | null;
};

function quoteClosedView(body: string): QuoteClosed {
  const row = stored<QuoteClosed>(body);
  return {
    ...row,
    quote_id: readUuid(row.quote_id),
    request_id: readUuid(row.request_id),
    ...(typeof row.replaced_by === "string" ? { replaced_by: readUuid(row.replaced_by) } : {}),
  };
}

/** Safe cast: announce.ts builds each body from the columns of the row type. */
function stored<Row>(body: string): Row {
  return JSON.parse(body) as Row;
}
