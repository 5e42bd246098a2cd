/** The request and response bodies of the RFQ routes (contract.md section 5). */
import * as z from "zod";
import {
  assetId,
  positiveU256,
  positiveUsdc,
  price as priceField,
  REQUEST_SIDES,
  requestSideField,
  SIDES,
  venueField,
  venueOut,
} from "../assets/asset-fields.ts";
import { ProblemSchema } from "../http/problem-schema.ts";
import {
  boolean,
  described,
  integer,
  notAfter,
  oneOf,
  pattern,
  uuidField,
  u256Out,
} from "../http/fields.ts";
import { CLOSE_REASONS, QUOTE_STATUSES, REQUEST_STATUSES } from "./statuses.ts";

/** Life of a request in seconds: the default and the maximum. */
export const REQUEST_LIFE = { default: 300, max: 86_400 } as const;
/** Time for which a quote is firm, in seconds: the default and the maximum. */
export const QUOTE_LIFE = { default: 30, max: 300 } as const;

/** The runtime escapes `'` in a query, so a signature over the query as sent would not verify. */
export const labelField = pattern(
  /^[\x21-\x26\x28-\x7e]{1,64}$/,
  "must be 1 to 64 visible ASCII characters without '",
);
const BACKINGS = ["asset", "usdc", "complement"] as const;
const givenLabel = described(
  labelField,
  "Your own name for it; nobody else sees it, and it need not be unique",
).optional();

export const RequestBody = z
  .strictObject({
    asset_id: assetId,
    venue_id: venueField,
    amount: positiveU256.optional(),
    usdc_amount: described(
      positiveUsdc,
      "Instead of amount: native units of USDC, from 1 to 2^62. A quote is for the amount that " +
        "they buy at its price, rounded down; fees come on top, unless fees_included",
    ).optional(),
    fees_included: described(
      boolean,
      "With usdc_amount: your present fee as a buyer is taken out of it first, and the request's " +
        "usdc_amount is what is left. A seller's fee is always part of it. Default: false",
    ).optional(),
    side: requestSideField,
    accept_price: described(
      priceField,
      "The worst price, before fees, at which the commit that places a quote accepts it for you. " +
        "Makers do not see it",
    ).optional(),
    accept_side: described(
      oneOf(SIDES),
      "With accept_price: required on a two-way request. Bid: you buy. Ask: you sell",
    ).optional(),
    disclose_identity: boolean.default(false).meta({
      default: false,
      description: "Whether makers see your user_id",
    }),
    expires_in_secs: integer(1, REQUEST_LIFE.max).default(REQUEST_LIFE.default).meta({
      default: REQUEST_LIFE.default,
      description: "Seconds until the request expires",
    }),
    label: givenLabel,
    not_after: notAfter,
  })
  .refine((body) => (body.amount === undefined) !== (body.usdc_amount === undefined), {
    path: ["amount"],
    message: "exactly one of amount and usdc_amount must be given",
  })
  .refine((body) => body.fees_included !== true || body.usdc_amount !== undefined, {
    path: ["fees_included"],
    message: "requires usdc_amount",
  })
  .refine(
    ({ side, accept_price: price, accept_side: own }) =>
      price === undefined
        ? own === undefined
        : side === "TwoWay"
          ? own !== undefined
          : own === undefined || own === side,
    {
      path: ["accept_side"],
      message: "must be the side of the request, or that of accept_price on a two-way request",
    },
  )
  .meta({ oneOf: [{ required: ["amount"] }, { required: ["usdc_amount"] }] });

export const QuoteBody = z.strictObject({
  request_id: described(uuidField, "Id of the request to quote"),
  price: priceField,
  side: described(
    oneOf(SIDES),
    "Required on a two-way request. Bid: the requester buys. Ask: the requester sells. Elsewhere " +
      "it may be omitted",
  ).optional(),
  replaces: described(
    uuidField,
    "Id of your quote on the same request and side that this one replaces in one commit. The new " +
      "quote may use its reserve. If the new one is rejected, the old one stays open",
  ).optional(),
  expires_in_secs: integer(1, QUOTE_LIFE.max).default(QUOTE_LIFE.default).meta({
    default: QUOTE_LIFE.default,
    description:
      "Seconds until the quote expires, from when the service received it. It is firm until then.",
  }),
  confirm_price: described(
    boolean,
    "You mean the price, although it is beyond max_deviation of your protection. Default: false",
  ).optional(),
  backing: described(
    oneOf(BACKINGS),
    "What the quote reserves on a paired market. Of a Bid: `asset`, or `usdc`, of which the match " +
      "makes both tokens and you get the complement. Of an Ask: USDC, or with `complement` that " +
      "token, and the match turns both tokens into USDC. Default: asset, which on an Ask means USDC",
  ).optional(),
  label: givenLabel,
  not_after: notAfter,
});

export const idempotencyKeyField = pattern(
  /^[\x21-\x7e]{1,128}$/,
  "must be 1 to 128 visible ASCII characters",
);

/** One of several quotes. They share one deadline. */
const QuoteItem = QuoteBody.omit({ not_after: true }).extend({
  idempotency_key: described(
    idempotencyKeyField,
    "Makes this quote repeatable for an hour, also by POST /rfq/quote",
  ).optional(),
});

export function quotesBody(max: number) {
  return z.strictObject({
    quotes: described(z.array(QuoteItem).min(1).max(max), "The quotes, in the order to place them"),
    not_after: notAfter,
  });
}

export const AcceptBody = z
  .strictObject({
    quote_id: described(uuidField, "Id of the quote to accept").optional(),
    request_id: described(
      uuidField,
      "Instead of quote_id, with price: id of your request, whose best open quote is accepted, of " +
        "equal prices the oldest",
    ).optional(),
    price: described(priceField, "The worst price that you accept, scaled by 1e6").optional(),
    side: described(
      oneOf(SIDES),
      "With price: required on a two-way request. Bid: you buy. Ask: you sell",
    ).optional(),
    not_after: notAfter,
  })
  .refine(
    ({ quote_id: quote, request_id: request, price, side }) =>
      quote === undefined
        ? request !== undefined && price !== undefined
        : request === undefined && price === undefined && side === undefined,
    { path: ["quote_id"], message: "must be given alone, or request_id and price instead" },
  )
  .meta({
    oneOf: [
      { required: ["quote_id"] },
      { required: ["request_id", "price"], properties: { side: {} } },
    ],
  });
export const AcceptPriceBody = z.strictObject({
  request_id: described(uuidField, "Id of your open request"),
  accept_price: priceField.nullable().meta({
    type: ["integer", "null"],
    minimum: 1,
    maximum: 1_000_000,
    description: "As in POST /rfq/request. Null: removes it",
  }),
  accept_side: described(
    oneOf(SIDES),
    "Required on a two-way request. Bid: you buy. Ask: you sell",
  ).optional(),
});
export const requestListing = described(oneOf(["open", "all"]), "`all` lists ended requests too")
  .default("open")
  .meta({ default: "open" });
export const ROLES = ["requester", "maker"] as const;
export const quoteStatus = described(oneOf(QUOTE_STATUSES), "Only quotes of this status");

const instant = (description: string) => z.iso.datetime().meta({ description });
const id = (description: string) => z.uuid().meta({ description });
const fee = u256Out("USDC native units that the reader of this record pays, beside usdc_amount");
const usdcAmount = u256Out("USDC native units that the buyer pays the seller, without fees");
const price = described(z.int(), "USDC for one token, scaled by 1e6: 650000 is 0.65");
const assetOut = {
  venue_id: venueOut("Venue of the asset"),
  asset_id: described(z.string(), "Outcome token, as canonical 0x hex"),
};
const traded = {
  ...assetOut,
  amount: u256Out("Native units of the asset"),
  side: described(z.enum(SIDES), "Bid: the requester buys the asset. Ask: the requester sells it"),
};

const Reserve = z
  .object({
    venue_id: venueOut("Venue; null for USDC").nullable(),
    asset_id: described(z.string().nullable(), "Outcome token; null for USDC"),
    amount: u256Out("Native units"),
  })
  .meta({ id: "Reserve" });

export const RequestItem = z
  .object({
    request_id: id("Identifies the request"),
    user_id: described(
      z.uuid().nullable(),
      "The requester; null unless it is you or they disclosed it",
    ),
    ...assetOut,
    amount: u256Out("Native units of the asset; absent if the size is in USDC").optional(),
    usdc_amount: u256Out("Native units of USDC; absent if the size is in the asset").optional(),
    side: described(
      z.enum(REQUEST_SIDES),
      "Bid: the requester buys. Ask: the requester sells. TwoWay: either",
    ),
    status: described(z.enum(REQUEST_STATUSES), "`open` until it is matched, cancelled or expires"),
    disclose_identity: described(z.boolean(), "Whether makers see user_id"),
    label: described(
      z.string().nullable(),
      "The requester's own name for it; null unless it is your request",
    ),
    created_at: instant("When it was opened"),
    expires_at: instant("When it ends unless a quote was accepted before"),
    best_price: described(
      z.int().nullable().optional(),
      "Best open price for you, scaled by 1e6; only on your own requests. Null without quotes " +
        "and on two-way requests",
    ),
    best_prices: described(
      z
        .object({
          Bid: described(z.int().nullable(), "Lowest price at which you can buy"),
          Ask: described(z.int().nullable(), "Highest price at which you can sell"),
        })
        .optional(),
      "Best open prices, only on your own two-way requests",
    ),
    quote_count: described(z.int().optional(), "Number of open quotes; only on your own requests"),
    accept_price: described(
      z.int().nullable().optional(),
      "The worst price at which a quote is accepted as soon as it is placed; only on your own " +
        "requests. Null: none, or the request has ended",
    ),
    accept_side: described(
      z.enum(SIDES).nullable().optional(),
      "The side of accept_price; null without it",
    ),
  })
  .meta({ id: "RequestItem" });

export const Match = z
  .object({
    match_id: id("Identifies the match"),
    request_id: id("The matched request"),
    quote_id: id("The accepted quote"),
    ...traded,
    price,
    usdc_amount: usdcAmount,
    fee,
    role: described(z.enum(ROLES), "Your role in the trade"),
    label: described(z.string().nullable(), "Your own label of the request or quote"),
    complement_asset_id: described(
      z.string().nullable(),
      "On your match as the maker, if the quote was backed by `usdc` or `complement`: the token " +
        "that you got for a Bid or gave for an Ask. Else null",
    ),
    status: described(z.literal("settled"), "A match settles at once"),
    created_at: instant("When the quote was accepted"),
  })
  .meta({ id: "Match" });

export const Quote = z
  .object({
    quote_id: id("Identifies the quote"),
    request_id: id("The request that it answers"),
    ...traded,
    price,
    usdc_amount: usdcAmount,
    fee,
    // Not `nullable`, which describes a named schema as one that may always be null.
    reserve: described(
      z.union([Reserve, z.null()]),
      "What it set aside when it was placed; null unless it is your quote",
    ),
    label: described(
      z.string().nullable(),
      "The maker's own name for it; null unless it is your quote",
    ),
    status: described(z.enum(QUOTE_STATUSES), "`rejected`: the request ended without this quote"),
    close_reason: described(
      z.enum(CLOSE_REASONS).nullable(),
      "Why it ended; null while it is open. `outbid`: the side of the request was full, and a " +
        "better quote took its place. The requester sees `cancelled` for `replaced`, `timeout`, " +
        "`protection`, `disconnect` and `outbid`",
    ),
    replaced_by: described(
      z.uuid().nullable(),
      "The quote that replaced it; null unless it is your quote",
    ),
    created_at: instant("When it was placed"),
    expires_at: instant("When it stops being firm; never after its request expires"),
    match: described(
      Match.optional(),
      "Only in the response to the quote, if the commit that placed it accepted it",
    ),
  })
  .meta({ id: "Quote" });

export const QuoteResults = z.object({
  results: described(
    z.array(
      z
        .object({
          quote: described(z.union([Quote, z.null()]), "The quote; null if it was rejected"),
          problem: described(
            z.union([ProblemSchema, z.null()]),
            "Why it was rejected; null if it was placed",
          ),
          replayed: described(
            z.boolean(),
            "Whether an earlier call with the same idempotency key placed the quote",
          ),
        })
        .meta({ id: "QuoteResult" }),
    ),
    "In the order of the quotes",
  ),
});

export const Trade = z
  .object({
    match_id: id("Identifies the match"),
    ...traded,
    price,
    usdc_amount: usdcAmount,
    created_at: instant("When it traded"),
  })
  .meta({ id: "Trade" });

const signedUnits = (description: string) =>
  z
    .string()
    .regex(/^-?\d+$/)
    .nullable()
    .meta({ description });

export const Position = z
  .object({
    ...assetOut,
    amount: u256Out("Native units that you hold, reserved and promised ones included"),
    bought: u256Out("Native units bought in all trades"),
    spent: u256Out("USDC native units paid for them, fees included"),
    sold: u256Out("Native units sold in all trades"),
    received: u256Out("USDC native units received for them, less fees"),
    average_price: described(
      z.int().nullable(),
      "spent / bought, scaled by 1e6 and rounded up; with fees it may exceed 1000000. Null if " +
        "none was bought",
    ),
    realized: signedUnits(
      "received − spent × sold / bought in USDC native units, rounded down, as signed decimal " +
        "text. Null if none was bought",
    ),
    value: described(
      u256Out("").nullable(),
      "amount × result, or last_price, in USDC native units, rounded down. Null without either",
    ),
    result: described(
      z.int().nullable(),
      "What one token pays, scaled by 1e6, once the market has a result",
    ),
    last_price: described(price.nullable(), "Price of the newest trade; null without one"),
    last_price_at: described(z.iso.datetime().nullable(), "When that trade was made"),
  })
  .meta({ id: "Position" });

export const AcceptPriceSet = z.object({
  request_id: id("Id of the request"),
  accept_price: described(z.int().nullable(), "What is in force. Null: none, or it has matched"),
  match: described(z.union([Match, z.null()]), "The match, if an open quote was as good"),
});

const cancelled = described(z.literal("cancelled"), "Always `cancelled`");
export const CancelledRequest = z.object({
  request_id: id("Id of the request"),
  status: cancelled,
});
export const CancelledQuote = z.object({ quote_id: id("Id of the quote"), status: cancelled });
export const CancelledQuotes = z.object({
  cancelled: described(z.int(), "Number of cancelled quotes"),
});
