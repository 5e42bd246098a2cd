import * as z from "zod";
import { assetId, assetList, venueField, venueOut } from "../../assets/asset-fields.ts";
import { pageFields } from "../../http/cursor.ts";
import {
  boundedText,
  described,
  oneOf,
  pattern,
  textField,
  timestamp,
  u256Out,
} from "../../http/fields.ts";
import { MARKET_STATUSES, RESOLVERS } from "./market.ts";

const MAX_SEARCH_CHARS = 100;

const eventId = pattern(/^[A-Za-z0-9._:-]{1,64}$/, "must be 1 to 64 of A-Z a-z 0-9 . _ : -");
const category = boundedText(1, 64);
const url = pattern(/^https?:\/\/[!-~]{1,500}$/, "must be an http or https URL");

export const marketsQuery = {
  status: described(oneOf(MARKET_STATUSES), "Only markets of this status").optional(),
  test: described(
    oneOf(["true", "false"]),
    "`true`: only markets in which the operator tries the service. Default: only others",
  ).optional(),
  event_id: described(eventId, "Only the outcomes of this question").optional(),
  category: described(category, "Only markets of this category").optional(),
  q: described(
    boundedText(1, MAX_SEARCH_CHARS),
    "Only markets in whose title or outcome every one of these words occurs",
  ).optional(),
  assets: assetList("Only these assets of the venue").optional(),
  sort: described(
    oneOf(["title", "volume"]),
    "`volume`: questions that traded most in the last day first. Default: by title and outcome",
  ).optional(),
  ...pageFields(z.tuple([z.string()]).transform(([asset]) => asset)),
};

export const MarketItem = z
  .object({
    venue_id: venueOut("Venue of the asset"),
    asset_id: described(z.string(), "Outcome token, as canonical 0x hex"),
    event_id: described(
      z.string().nullable(),
      "The question, which all its outcomes at the venue share; null: the title identifies it",
    ),
    title: described(z.string(), "The question that the market settles"),
    outcome: described(z.string(), "The outcome for which the token pays one USDC"),
    description: described(z.string().nullable(), "What decides the result, in words"),
    rules_url: described(z.string().nullable(), "Where the rules of the result are"),
    category: described(z.string().nullable(), "What the operator files it under"),
    url: described(z.string().nullable(), "Where the venue describes the market"),
    closes_at: described(
      z.iso.datetime().nullable(),
      "From then on the market is closed; null: until the operator closes it",
    ),
    status: described(
      z.enum(MARKET_STATUSES),
      "`closed`: requests, quotes and accepts are rejected",
    ),
    result: described(
      z.int().nullable(),
      "What one token pays, in USDC scaled by 1e6: 1000000 or 0, or between them if the venue " +
        "settles in part. Null until the operators have set it. It can be corrected later, that " +
        "of a pair until `settles_at`",
    ),
    resolved_by: described(
      z.enum(RESOLVERS),
      "`operator`: the venue has no chain, so this service's operators decide the result and the " +
        "service pays it. `venue`: the venue does. The service pays it to holders if the market " +
        "has a `condition`, and else only announces it",
    ),
    condition: described(
      z.string().nullable(),
      "The condition (Conditional Tokens) whose result the pair's tokens pay, as 0x hex. Null: the " +
        "market has none",
    ),
    withdrawable: u256Out(
      "Of a pair with a `condition`: native units that can be withdrawn now, a few seconds old. " +
        "More is held than that while `issued` is above 0. Null: not such a pair, or all are paid",
    ).nullable(),
    issued: u256Out(
      "Of a pair with a `condition`: native units of the token that the service has issued for " +
        "USDC, and does not hold on the chain. Null: as `withdrawable`",
    ).nullable(),
    complement_asset_id: described(
      z.string().nullable(),
      "The other token of the pair. One of each is worth 1 USDC (POST /custody/split and " +
        "/custody/redeem). Null: not paired",
    ),
    settles_at: described(
      z.iso.datetime().nullable(),
      "From then on the result of a pair is final and its holders are paid. Null: no result yet, " +
        "or not paired",
    ),
  })
  .meta({ id: "Market" });

const MAX_RESULT = 1_000_000;

export const resultField = textField(
  (given) => (/^\d{1,7}$/.test(given) && Number(given) <= MAX_RESULT ? Number(given) : undefined),
  `must be an integer from 0 to ${MAX_RESULT}`,
  { type: "integer", minimum: 0, maximum: MAX_RESULT },
);

/** Each isolate has 20 000 of them in memory. */
const MAX_DESCRIPTION_CHARS = 1_000;

/** What the operator states about a market. */
export const MarketTerms = z.strictObject({
  venue_id: venueField,
  asset_id: assetId,
  title: boundedText(1, 200),
  outcome: boundedText(1, 64),
  url: url.nullish(),
  event_id: eventId.nullish(),
  category: category.nullish(),
  description: boundedText(1, MAX_DESCRIPTION_CHARS).nullish(),
  rules_url: url.nullish(),
  closes_at: timestamp.nullish(),
  test: z.boolean().default(false),
  /** The other token of the pair, never changed. At a venue with a chain the condition names it. */
  complement: assetId.nullish(),
  /** Of the venue's token contract. It pairs its two tokens for good. */
  condition: pattern(/^0x[0-9a-f]{64}$/, "must be 0x and 64 lower-case hex digits").nullish(),
});
export type MarketTerms = z.output<typeof MarketTerms>;
