/** Records of the archive as the rows that the database returns, as their owner reads them. */
import { bareId } from "../archive/ask-history.ts";
import type { SealedRecord } from "../archive/record-page.ts";
import type { SealedMatch, SealedQuote, SealedRequest } from "../archive/sealed-columns.ts";
import { eachText, QUOTE_TEXTS, REQUEST_TEXTS } from "./own-texts.ts";
import type { MatchRow, QuoteRow, RequestRow } from "./rfq-records.ts";

export function requestRow(record: SealedRecord): RequestRow {
  const row = requireRequest(record);
  return {
    request_id: hexOf(row.request_id),
    user_id: hexOf(row.requester_id),
    asset: row.asset,
    amount: textOrNull(row.amount),
    usdc_amount: textOrNull(row.usdc_amount),
    side: known<RequestRow["side"]>(row.side),
    status: known<RequestRow["status"]>(row.status),
    disclosed: row.disclosed,
    opened_at: row.opened_at,
    expires_at: row.expires_at,
    owned: 1,
    ...eachText(REQUEST_TEXTS, (name) => row[name]),
    // A sealed request has ended, so it has no open quotes.
    best_bid: null,
    best_ask: null,
    quote_count: 0,
  };
}

/** As its maker sees it. */
export function quoteRow(record: SealedRecord): QuoteRow {
  const row = requireQuote(record);
  return {
    quote_id: hexOf(row.quote_id),
    request_id: hexOf(row.request_id),
    asset: row.asset,
    amount: String(row.amount),
    side: known<QuoteRow["side"]>(row.side),
    price: row.price,
    usdc_amount: String(row.usdc_amount),
    fee: String(row.maker_fee),
    status: known<QuoteRow["status"]>(row.status),
    opened_at: row.opened_at,
    expires_at: row.expires_at,
    reserve: String(row.reserve),
    ...eachText(QUOTE_TEXTS, (name) => row[name]),
    close_reason: known<NonNullable<QuoteRow["close_reason"]>>(row.cancel_reason ?? row.status),
    replaced_by: row.replaced_by === null ? null : hexOf(row.replaced_by),
  };
}

/** As the user sees it, who is one of its two parties. */
export function matchRow(record: SealedRecord, userId: string): MatchRow {
  const row = requireMatch(record);
  const isMaker = row.maker_id === bareId(userId);
  return {
    match_id: hexOf(row.match_id),
    request_id: hexOf(row.request_id),
    quote_id: hexOf(row.quote_id),
    asset: row.asset,
    side: known<MatchRow["side"]>(row.side),
    amount: String(row.amount),
    price: row.price,
    usdc_amount: String(row.usdc_amount),
    fee: String(isMaker ? row.maker_fee : row.taker_fee),
    role: isMaker ? "maker" : "requester",
    label: isMaker ? row.maker_label : row.requester_label,
    at: row.at,
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

class OtherKind extends Error {
  constructor(wanted: string) {
    super(`the archive returned another record than a ${wanted}`);
  }
}

function requireRequest(record: SealedRecord): SealedRequest {
  if ("quote_id" in record) throw new OtherKind("request");
  return record;
}

function requireQuote(record: SealedRecord): SealedQuote {
  if (!("quote_id" in record) || "match_id" in record) throw new OtherKind("quote");
  return record;
}

function requireMatch(record: SealedRecord): SealedMatch {
  if (!("match_id" in record)) throw new OtherKind("match");
  return record;
}
