/** Requests and quotes of the archive as rows of the database, as their owner reads them. */
import type { SealedQuote, SealedRequest } from "../archive/sealed-columns.ts";
import type { QuoteRow, RequestRow } from "./rfq-records.ts";

export function requestRow(row: SealedRequest): RequestRow {
  return {
    request_id: hexOf(row.request_id),
    user_id: hexOf(row.requester_id),
    asset: row.asset,
    amount: textOrNull(row.amount),
    usdc_amount: textOrNull(row.usdc_amount),
    side: known(row.side),
    status: known(row.status),
    disclosed: row.disclosed,
    opened_at: row.opened_at,
    expires_at: row.expires_at,
    owned: 1,
    label: row.label,
    // A sealed request has ended, so it has no open quotes.
    best_bid: null,
    best_ask: null,
    quote_count: 0,
  };
}

/** The quote as its maker sees it. */
export function quoteRow(row: SealedQuote): QuoteRow {
  return {
    quote_id: hexOf(row.quote_id),
    request_id: hexOf(row.request_id),
    asset: row.asset,
    amount: String(row.amount),
    side: known(row.side),
    price: row.price,
    usdc_amount: String(row.usdc_amount),
    fee: String(row.maker_fee),
    status: known(row.status),
    opened_at: row.opened_at,
    expires_at: row.expires_at,
    reserve: String(row.reserve),
    label: row.label,
    close_reason: known(row.cancel_reason ?? row.status),
    replaced_by: row.replaced_by === null ? null : hexOf(row.replaced_by),
    complement: row.complement,
  };
}

/** Safe cast: the archive contains only what the database's own constraints had accepted. */
function known<Text extends string>(text: string): Text {
  return text as Text;
}

/** Rows have ids as SQLite's `hex()` spells them. */
function hexOf(id: string): string {
  return id.toUpperCase();
}

function textOrNull(amount: bigint | null): string | null {
  return amount === null ? null : String(amount);
}
