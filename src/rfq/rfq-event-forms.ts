/** How RFQ events are stored. platform/event-forms.ts explains it. */
import type { EventForm } from "../platform/event-forms.ts";

/** The instant of its opening is the event's. `life_ms` is how long it stays open. */
export const REQUEST_OPENED = {
  codes: { "request.opened": 1 },
  ids: { request_id: 16, asset_id: 32 },
  values: [
    "venue",
    "side",
    "amount",
    "usdc_amount",
    "life_ms",
    "disclosed",
    "owned",
    "user_id",
    "label",
    "accept",
  ],
} as const satisfies EventForm;

export const REQUEST_CLOSED = {
  codes: { "request.closed": 2 },
  ids: { request_id: 16 },
  values: ["reason"],
} as const satisfies EventForm;

/** On venue streams, whose sockets may have chosen assets. */
export const VENUE_REQUEST_CLOSED = {
  codes: { "request.closed": 23 },
  ids: { request_id: 16, asset_id: 32 },
  values: ["reason"],
} as const satisfies EventForm;

/** The instant of its opening is the event's. `life_ms` is how long it stays open. */
export const QUOTE_OPENED = {
  codes: { "quote.opened": 3, "quote.received": 4 },
  ids: { quote_id: 16, request_id: 16, asset_id: 32 },
  values: [
    "venue",
    "side",
    "amount",
    "price",
    "usdc_amount",
    "fee",
    "life_ms",
    "reserve",
    "label",
    "complement",
  ],
} as const satisfies EventForm;

/** The quote as the requester sees it. */
export const QUOTE_CLOSED = {
  codes: { "quote.closed": 5 },
  ids: { quote_id: 16, request_id: 16 },
  values: ["reason"],
} as const satisfies EventForm;

export const OWN_QUOTE_CLOSED = {
  codes: { "quote.closed": 6 },
  ids: { quote_id: 16, request_id: 16 },
  values: ["reason", "replaced_by", "label", "winning_price"],
} as const satisfies EventForm;

/** The instant of the match is the event's. */
export const MATCH_CREATED = {
  codes: { "match.created": 7 },
  ids: { match_id: 16, request_id: 16, quote_id: 16, asset_id: 32 },
  values: ["venue", "side", "amount", "price", "usdc_amount", "fee", "role", "label", "complement"],
} as const satisfies EventForm;

/** The instant of the trade is the event's. */
export const TRADE_PRINTED = {
  codes: { "trade.printed": 8 },
  ids: { match_id: 16, asset_id: 32 },
  values: ["venue", "side", "amount", "price", "usdc_amount"],
} as const satisfies EventForm;

export const PROTECTION_CHANGED = {
  codes: { "protection.tripped": 9, "protection.reset": 10 },
  ids: {},
  values: [
    "window_secs",
    "max_matches",
    "max_usdc",
    "cooldown_secs",
    "tripped_at",
    "blocked_until",
    "tripped_by",
    "max_deviation",
  ],
} as const satisfies EventForm;

export const MARKET_RESULT = {
  codes: { "market.result": 24 },
  ids: { asset_id: 32 },
  values: ["venue", "result", "previous"],
} as const satisfies EventForm;

export const MARKET_CORRECTED = {
  codes: { "market.corrected": 25 },
  ids: { asset_id: 32 },
  values: ["venue", "title", "outcome", "previous_title", "previous_outcome"],
} as const satisfies EventForm;

/** A standing accept that its requester's funds or rights did not allow. */
export const ACCEPT_REFUSED = {
  codes: { "accept.refused": 26 },
  ids: { request_id: 16, quote_id: 16 },
  values: ["price", "reason"],
} as const satisfies EventForm;

/** `cause`: `merge` or `result`. */
export const TOKEN_REDEEMED = {
  codes: { "token.redeemed": 27 },
  ids: { redemption_id: 16, asset_id: 32 },
  values: ["venue", "amount", "usdc_amount", "cause"],
} as const satisfies EventForm;

export const RFQ_FORMS: readonly EventForm[] = [
  REQUEST_OPENED,
  REQUEST_CLOSED,
  VENUE_REQUEST_CLOSED,
  QUOTE_OPENED,
  QUOTE_CLOSED,
  OWN_QUOTE_CLOSED,
  MATCH_CREATED,
  TRADE_PRINTED,
  PROTECTION_CHANGED,
  MARKET_RESULT,
  MARKET_CORRECTED,
  ACCEPT_REFUSED,
  TOKEN_REDEEMED,
];
