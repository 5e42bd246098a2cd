/** The wire shapes of the RFQ routes: what is taken and what is answered (contract.md section 5). */
import { z } from "@hono/zod-openapi";
import { VENUES } from "../platform/venues.ts";
import { assetId, positiveU256, price, sideField, venueField } from "../assets/fields.ts";
import { boolean, integer, oneOf, uuidField } from "../http/fields.ts";

const REQUEST_STATUSES = ["open", "matched", "cancelled", "expired"] as const;
const QUOTE_STATUSES = ["open", "accepted", "cancelled", "expired", "rejected"] as const;

/** Seconds a request stays open unless it says otherwise, and at most. */
const REQUEST_LIFE = { default: 300, max: 86_400 } as const;
/** Seconds a quote is firm unless it says otherwise, and at most. */
const QUOTE_LIFE = { default: 30, max: 300 } as const;

export const RequestBody = z.strictObject({
  asset_id: assetId,
  venue_id: venueField,
  amount: positiveU256,
  side: sideField,
  disclose_identity: boolean.default(false).openapi({ default: false }),
  expires_in_secs: integer(1, REQUEST_LIFE.max)
    .default(REQUEST_LIFE.default)
    .openapi({ default: REQUEST_LIFE.default }),
});

export const QuoteBody = z.strictObject({
  request_id: uuidField,
  price,
  expires_in_secs: integer(1, QUOTE_LIFE.max)
    .default(QUOTE_LIFE.default)
    .openapi({ default: QUOTE_LIFE.default }),
});

export const AcceptBody = z.strictObject({ quote_id: uuidField });
export const quoteStatus = oneOf(QUOTE_STATUSES);

const u256Out = z.string().regex(/^0x(0|[1-9a-f][0-9a-f]{0,63})$/);
const venueOut = z.enum(VENUES);
const sideOut = z.enum(["Bid", "Ask"]);
const traded = { venue_id: venueOut, asset_id: z.string(), amount: u256Out, side: sideOut };

export const RequestItem = z
  .object({
    request_id: z.uuid(),
    user_id: z.uuid().nullable(),
    ...traded,
    status: z.enum(REQUEST_STATUSES),
    disclose_identity: z.boolean(),
    created_at: z.iso.datetime(),
    expires_at: z.iso.datetime(),
    best_price: z.int().nullable().optional(),
    quote_count: z.int().optional(),
  })
  .openapi("RequestItem");

export const Quote = z
  .object({
    quote_id: z.uuid(),
    request_id: z.uuid(),
    ...traded,
    price: z.int(),
    usdc_amount: u256Out,
    fee: u256Out,
    status: z.enum(QUOTE_STATUSES),
    created_at: z.iso.datetime(),
    expires_at: z.iso.datetime(),
  })
  .openapi("Quote");

export const Match = z
  .object({
    match_id: z.uuid(),
    request_id: z.uuid(),
    quote_id: z.uuid(),
    ...traded,
    price: z.int(),
    usdc_amount: u256Out,
    fee: u256Out,
    role: z.enum(["requester", "maker"]),
    status: z.literal("settled"),
    created_at: z.iso.datetime(),
  })
  .openapi("Match");

export const CancelledRequest = z.object({ request_id: z.uuid(), status: z.literal("cancelled") });
export const CancelledQuote = z.object({ quote_id: z.uuid(), status: z.literal("cancelled") });
export const CancelledQuotes = z.object({ cancelled: z.int() });
