/** The wire form of RFQ events. It adds what rfq-event-forms.ts does not store. */
import { type EventRow, readAsset } from "../platform/event-forms.ts";
import { toHex } from "../assets/amount.ts";
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
    "request.opened": (row, at) =>
      requestView({
        ...opened<RequestRow>(row, at),
        best_bid: null,
        best_ask: null,
        quote_count: 0,
      }),
    "request.closed": requestClosedView,
    "quote.opened": quoteOpenedView,
    "quote.received": quoteOpenedView,
    "quote.closed": quoteClosedView,
    "accept.refused": acceptRefusedView,
    "protection.tripped": (row) => protectionEventView(stored<ProtectionRow>(row)),
    "protection.reset": (row) => protectionEventView(stored<ProtectionRow>(row)),
    "market.result": marketResultView,
    "market.corrected": marketCorrectedView,
    "token.redeemed": tokenRedeemedView,
    "match.created": (row, at) => matchView({ ...traded<MatchRow>(row), at }),
    "trade.printed": (row, at) => tradeView({ ...traded<TradeRow>(row), at }),
  },
};

function quoteOpenedView(row: EventRow, at: number) {
  return quoteView({ ...opened<QuoteRow>(row, at), close_reason: null, replaced_by: null });
}

function requestClosedView(row: EventRow) {
  const { request_id, reason } = stored<{ request_id: string; reason: string }>(row);
  return { request_id: readUuid(request_id), reason };
}

function marketResultView(row: EventRow) {
  const { asset, result, previous } = traded<{
    asset: string;
    result: number;
    previous: number | null;
  }>(row);
  return { ...assetView(asset), result, previous };
}

function marketCorrectedView(row: EventRow) {
  const { asset, title, outcome, previous_title, previous_outcome } = traded<{
    asset: string;
    title: string;
    outcome: string;
    previous_title: string;
    previous_outcome: string;
  }>(row);
  return { ...assetView(asset), title, outcome, previous_title, previous_outcome };
}

function tokenRedeemedView(row: EventRow) {
  const { asset, redemption_id, amount, usdc_amount, cause } = traded<{
    asset: string;
    redemption_id: string;
    amount: string;
    usdc_amount: string;
    cause: "merge" | "result";
  }>(row);
  return {
    redemption_id: readUuid(redemption_id),
    ...assetView(asset),
    amount: toHex(BigInt(amount)),
    usdc_amount: toHex(BigInt(usdc_amount)),
    cause,
  };
}

type QuoteClosed = {
  readonly quote_id: string;
  readonly request_id: string;
  readonly reason: string;
  /** The reason as the quote's record names it. */
  readonly close_reason?: string;
  /** Fields that only the maker receives. */
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
    close_reason: row.reason,
    ...(typeof row.replaced_by === "string" ? { replaced_by: readUuid(row.replaced_by) } : {}),
  };
}

function acceptRefusedView(event: EventRow) {
  const row = stored<{ request_id: string; quote_id: string; price: number; reason: string }>(
    event,
  );
  return { ...row, request_id: readUuid(row.request_id), quote_id: readUuid(row.quote_id) };
}

/** A record when it was opened. The caller adds what every new one has in common. */
function opened<Row extends { asset: string }>(row: EventRow, at: number) {
  const { life_ms: lifeMs } = stored<{ life_ms: number }>(row);
  const times = { opened_at: at, expires_at: at + lifeMs };
  return { ...traded<Row>(row), ...times, status: "open" as const };
}

function traded<Row extends { asset: string }>(row: EventRow): Row {
  const own = stored<Row & { venue: string; asset_id: string }>(row);
  return { ...own, asset: readAsset(own) };
}

/** Safe cast: announce-rfq.ts writes the columns of the form, which are those of the row type. */
function stored<Row>(row: EventRow): Row {
  return row as Row;
}
