import { pageSchema } from "../../http/cursor.ts";
import { route } from "../../http/define-route.ts";
import type { Api } from "../../http/route-definition.ts";
import { bookOf, bookQuery } from "../query-fields.ts";
import { MarketList, wordsOf } from "./market-list.ts";
import { MarketItem, marketsQuery } from "./schemas.ts";

export function registerMarketRoutes(api: Api): void {
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
    query: bookQuery({}, marketsQuery),
    response: pageSchema(MarketItem),
    handler: ({ env, settings, query }) =>
      markets.page(
        env,
        {
          ...query,
          ...bookOf(query),
          test: query.test === "true",
          words: wordsOf(query.q),
        },
        settings,
      ),
  });
}
