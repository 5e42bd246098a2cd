/** Prices over time. */
import * as z from "zod";
import { assetId, venueField } from "../../assets/asset-fields.ts";
import { pageSchema } from "../../http/cursor.ts";
import { route } from "../../http/define-route.ts";
import type { Api } from "../../http/route-definition.ts";
import { afterFrom, inOrder, period, READ } from "../query-fields.ts";
import { candlePage, listCandles } from "./list-candles.ts";
import { TickerList } from "./list-tickers.ts";
import { Candle, intervalField, TickersResponse } from "./schemas.ts";

export function registerCandleRoutes(api: Api): void {
  const tickers = new TickerList();
  route(api, {
    ...READ,
    path: "/rfq/get-tickers",
    operationId: "listTickers",
    summary: "List what the assets of a venue traded at in the last day",
    description:
      "The last day is the current UTC hour and the 23 before it. Assets without a trade in it are " +
      "absent. Largest volume first. The response may be ten seconds old.",
    query: z.strictObject({ venue_id: venueField }),
    response: TickersResponse,
    handler: ({ env, query }) => tickers.get(env, query.venue_id),
  });
  route(api, {
    ...READ,
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
      .refine(inOrder, afterFrom),
    response: pageSchema(Candle),
    handler: ({ db, query }) => {
      const { venue_id: venue, interval, from, to } = query;
      return listCandles(db, { venue, assetId: query.asset_id, interval, from, to }, query);
    },
  });
}
