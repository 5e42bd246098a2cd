/**
 * The wire form of RFQ events. Records are rendered as reads render them: what every event of a
 * type has in common is not stored (rfq-event-forms.ts) and added here.
 */
import { type EventRow, readAsset } from "../platform/event-forms.ts";
import { readUuid } from "../platform/sql.ts";
import type { EventTable } from "../streams/render.ts";
import { protectionEventView, type ProtectionRow } from "./protection-record.ts";
import { RFQ_FORMS } from "./rfq-event-forms.ts";
import {
  assetView,
  type MatchRow,
  matchView,
  type QuoteRow,
  quoteView,
  type RequestRow,
  requestView,
  type TradeRow,
  tradeView,
} from "./rfq-records.ts";

export const RFQ_EVENTS: EventTable = {
  forms: RFQ_FORMS,
  views: {
    "request.opened": requestOpenedView,
    "request.closed": requestClosedView,
    "quote.opened": quoteOpenedView,
    "quote.received": quoteOpenedView,
    "quote.closed": quoteClosedView,
    "protection.tripped": (row) => protectionEventView(stored<ProtectionRow>(row)),
    "protection.reset": (row) => protectionEventView(stored<ProtectionRow>(row)),
    "market.result": marketResultView,
    "match.created": (row, at) => matchView({ ...traded<Stored<MatchRow, "at">>(row), at }),
    "trade.printed": (row, at) => tradeView({ ...traded<Stored<TradeRow, "at">>(row), at }),
  },
};

/** The columns of a row that an event stores, without those that are added here. */
type Stored<Row extends { asset: string }, Added extends keyof Row> = Omit<Row, "asset" | Added> & {
  readonly venue: string;
  readonly asset_id: string;
};
type Life = { readonly life_ms: number };

type Bests = "best_bid" | "best_ask" | "quote_count";

function requestOpenedView(row: EventRow, at: number) {
  const request = traded<Stored<RequestRow, "status" | "opened_at" | "expires_at" | Bests> & Life>(
    row,
  );
  return requestView({
    ...request,
    status: "open",
    opened_at: at,
    expires_at: at + request.life_ms,
    best_bid: null,
    best_ask: null,
    quote_count: 0,
  });
}

function quoteOpenedView(row: EventRow, at: number) {
  const quote = traded<
    Stored<QuoteRow, "status" | "opened_at" | "expires_at" | "close_reason" | "replaced_by"> & Life
  >(row);
  return quoteView({
    ...quote,
    status: "open",
    opened_at: at,
    expires_at: at + quote.life_ms,
    close_reason: null,
    replaced_by: null,
  });
}

function requestClosedView(row: EventRow) {
  const { request_id, reason } = stored<{ request_id: string; reason: string }>(row);
  return { request_id: readUuid(request_id), reason };
}

function marketResultView(row: EventRow) {
  const { asset, result, previous } = traded<{
    venue: string;
    asset_id: string;
    result: number;
    previous: number | null;
  }>(row);
  return { ...assetView(asset), result, previous };
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

function quoteClosedView(event: EventRow): QuoteClosed {
  const row = stored<QuoteClosed>(event);
  return {
    ...row,
    quote_id: readUuid(row.quote_id),
    request_id: readUuid(row.request_id),
    ...(typeof row.replaced_by === "string" ? { replaced_by: readUuid(row.replaced_by) } : {}),
  };
}

function traded<Row extends { venue: string; asset_id: string }>(row: EventRow) {
  const own = stored<Row>(row);
  return { ...own, asset: readAsset(own) };
}

/** Safe cast: announce-rfq.ts writes the columns of the form, which are those of the row type. */
function stored<Row>(row: EventRow): Row {
  return row as Row;
}
