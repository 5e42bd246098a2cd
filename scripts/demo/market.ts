/** Step 3: the operator lists markets, and the taker finds the one to trade by its name. */
import type { Client, Market } from "../../packages/client/src/index.ts";
import { listExampleMarkets } from "../stack/example-markets.ts";
import type { Stack } from "../stack/start-stack.ts";
import { expectEqual, type Narrator, short } from "./narrator.ts";

const SEARCH = "fed cuts yes";

export async function findMarket(stack: Stack, tell: Narrator, taker: Client): Promise<Market> {
  await tell.call(
    "operator: market import",
    () => listExampleMarkets(stack),
    (number) => `${number} markets`,
  );
  const found = await tell.call(
    `GET /markets?q=${SEARCH}`,
    () => taker.markets({ q: SEARCH, status: "open" }).all(),
    (list) => `200 ${list.map(({ title, outcome }) => `"${title}" ${outcome}`).join(", ")}`,
  );
  expectEqual("the number of markets that fit", found.length, 1);
  const [market] = found;
  if (market === undefined) throw new Error("unreachable: one market was found");
  tell.fact(`"${market.title}" ${market.outcome}: ${market.venue_id} ${short(market.asset_id)}`);
  return market;
}
