import { pageSchema } from "../../http/cursor.ts";
import { route } from "../../http/define-route.ts";
import type { Api } from "../../http/route-definition.ts";
import type { TickerList } from "../candles/list-tickers.ts";
import { bookOf, bookQuery } from "../query-fields.ts";
import { MarketList, wordsOf } from "./market-list.ts";
import { MarketItem, marketsQuery } from "./schemas.ts";

export function registerMarketRoutes(api: Api, tickers: TickerList): void {
  const markets = new MarketList();
  route(api, {
    method: "get",
    path: "/markets",
    operationId: "listMarkets",
    tag: "RFQ",
    summary: "List or search the markets, by title and outcome",
    description:
      "Says what an asset is and until when it trades. The response may be a second old. Unless " +
      "GET /config has `listed_only`, assets that are not listed are traded too.",
    credential: "public",
    query: bookQuery({}, marketsQuery).refine(
      ({ venue_id, asset_id, assets }) =>
        assets === undefined || (venue_id !== undefined && asset_id === undefined),
      { path: ["assets"], message: "needs venue_id, and must not be combined with asset_id" },
    ),
    response: pageSchema(MarketItem),
    handler: async ({ env, settings, query }) => {
      const traded = query.sort === "volume" ? await tickers.rows(env, settings) : undefined;
      return markets.page(
        env,
        {
          ...query,
          ...bookOf(query),
          test: query.test === "true",
          words: wordsOf(query.q),
        },
        settings,
        traded,
      );
    },
  });
}
