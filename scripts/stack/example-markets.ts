/** Markets of the local stack, so that people read names and not only asset ids. */
import { order } from "../operator/carry-out.ts";
import type { LocalVenue } from "./local-venues.ts";
import type { Stack } from "./start-stack.ts";

type ExampleMarket = {
  venue_id: LocalVenue;
  asset_id: string;
  title: string;
  outcome: string;
  url: string;
  closes_at: string;
};

/** `npm run smoke` trades in it. */
export const TEST_MARKET = {
  venue_id: "venue_one",
  asset_id: "0x736d6f6b65",
  title: "Does the service work?",
  outcome: "Yes",
  test: true,
} as const;

const question = (
  venue_id: LocalVenue,
  [title, slug, closes_at]: readonly [title: string, slug: string, closes_at: string],
  outcomes: Readonly<Record<string, string>>,
): ExampleMarket[] =>
  Object.entries(outcomes).map(([asset_id, outcome]) => ({
    venue_id,
    asset_id,
    title,
    outcome,
    url: `https://${venue_id.replace("_", "-")}.example/markets/${slug}`,
    closes_at,
  }));

export const EXAMPLE_MARKETS: readonly ExampleMarket[] = [
  ...question(
    "venue_one",
    ["Fed cuts rates at its January 2030 meeting?", "fed-cut-jan-2030", "2030-01-30T19:00:00Z"],
    { "0x1": "Yes", "0x2": "No" },
  ),
  ...question(
    "venue_one",
    ["Bitcoin above $250,000 on 31 December 2029?", "btc-250k-2029", "2029-12-31T23:59:00Z"],
    { "0x3": "Yes", "0x4": "No" },
  ),
  ...question(
    "venue_two",
    ["Winner of the 2030 World Cup", "world-cup-2030", "2030-07-21T18:00:00Z"],
    { "0x1": "Argentina", "0x2": "Spain", "0x3": "Another team" },
  ),
  ...question(
    "venue_two",
    ["Hottest year on record in 2029?", "hottest-year-2029", "2030-01-10T12:00:00Z"],
    { "0x4": "Yes" },
  ),
  ...question(
    "venue_three",
    ["US presidential election of 2032: winning party", "us-2032-party", "2032-11-02T23:00:00Z"],
    { "0x1": "Democratic", "0x2": "Republican" },
  ),
  ...question(
    "venue_three",
    ["Crewed landing on the Moon before 2031?", "moon-before-2031", "2030-12-31T23:59:00Z"],
    { "0x3": "Yes", "0x4": "No" },
  ),
];

/** Lists them with the operator's command, as a deployment would. Only the test market is hidden. */
export async function listExampleMarkets(stack: Stack): Promise<number> {
  const markets = JSON.stringify([TEST_MARKET, ...EXAMPLE_MARKETS]);
  await order(stack, "market import", { markets });
  return EXAMPLE_MARKETS.length;
}
