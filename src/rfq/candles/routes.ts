import * as z from "zod";
import { CANDLE_STEPS, type CandleInterval } from "../../archive/candles.ts";
import { assetId, venueField, venueOut } from "../../assets/asset-fields.ts";
import { pageSchema } from "../../http/cursor.ts";
import { route } from "../../http/define-route.ts";
import { described, oneOf, u256Out } from "../../http/fields.ts";
import type { Api } from "../../http/route-definition.ts";
import { inOrder, period, PUBLIC } from "../query-fields.ts";
import { candlePage, listCandles } from "./list-candles.ts";
import { type TickerList, tickerPage } from "./list-tickers.ts";

// Safe cast: `Object.keys` returns these keys.
const INTERVALS = Object.keys(CANDLE_STEPS) as CandleInterval[];

const intervalField = described(oneOf(INTERVALS), "Length of a candle");

const price = (description: string) => described(z.int(), description);

const Candle = z
  .object({
    start: described(z.iso.datetime(), "Start of the minute, hour or UTC day"),
    open: price("Price of its first trade, scaled by 1e6"),
    high: price("Highest price, scaled by 1e6"),
    low: price("Lowest price, scaled by 1e6"),
    close: price("Price of its last trade, scaled by 1e6"),
    amount: u256Out("Native units of the asset that traded"),
    usdc_amount: u256Out("USDC native units that they cost, without fees"),
    trades: described(z.int(), "Number of trades"),
    final: described(z.boolean(), "Whether it changes no more"),
  })
  .meta({ id: "Candle" });

const Ticker = z
  .object({
    venue_id: venueOut("Venue of the asset"),
    asset_id: described(z.string(), "Outcome token, as canonical 0x hex"),
    last_price: price("Price of the last trade, scaled by 1e6"),
    last_price_at: described(z.iso.datetime(), "When it was made"),
    change: price("last_price less the first price of the last day, scaled by 1e6"),
    amount: u256Out("Native units of the asset that traded in the last day"),
    usdc_amount: u256Out("USDC native units that they cost, without fees"),
    trades: described(z.int(), "Number of trades in the last day"),
    prices: described(
      z.array(z.int().nullable()),
      "The last price of each of the 24 hours, oldest first; null where nobody traded",
    ),
  })
  .meta({ id: "Ticker" });

export function registerCandleRoutes(api: Api, tickers: TickerList): void {
  route(api, {
    ...PUBLIC,
    path: "/rfq/get-tickers",
    operationId: "listTickers",
    summary: "List what assets traded at in the last day, listed markets first",
    description:
      "The last day is the current UTC hour and the 23 before it. Assets without a trade in it are " +
      "absent. Of listed markets, then of others, the largest volume is first. The response may be " +
      "ten seconds old.",
    query: z.strictObject({ venue_id: venueField.optional(), ...tickerPage }),
    response: pageSchema(Ticker),
    handler: ({ env, settings, query: { venue_id: venue, ...page } }) =>
      tickers.page(env, settings, { venue, ...page }),
  });
  route(api, {
    ...PUBLIC,
    path: "/rfq/get-candles",
    operationId: "listCandles",
    summary: "List an asset's candles, newest first",
    description:
      "A minute, hour or UTC day without a trade has none. Those of a minute are kept for two days, " +
      "those of an hour for 90 days, those of a day for ever.",
    query: z
      .strictObject({
        venue_id: venueField,
        asset_id: assetId,
        interval: intervalField,
        ...period,
        ...candlePage,
      })
      .refine(...inOrder),
    response: pageSchema(Candle),
    handler: ({ db, settings, query }) => {
      const { venue_id: venue, interval, from, to } = query;
      return listCandles(
        { db, settings },
        { venue, assetId: query.asset_id, interval, from, to },
        query,
      );
    },
  });
}
