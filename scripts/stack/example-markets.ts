/** Markets of the local stack, so that people read names and not only asset ids. */
import { order } from "../operator/carry-out.ts";
import { CHAINLESS_VENUE, type LocalVenue } from "./local-venues.ts";
import type { Stack } from "./start-stack.ts";

type ExampleMarket = {
  venue_id: LocalVenue;
  asset_id: string;
  title: string;
  outcome: string;
  event_id: string;
  category: string;
  description: string;
  rules_url: string;
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

type Question = Pick<
  ExampleMarket,
  "venue_id" | "title" | "category" | "description" | "closes_at"
>;

const question = (
  event_id: string,
  about: Question,
  outcomes: Readonly<Record<string, string>>,
): ExampleMarket[] =>
  Object.entries(outcomes).map(([asset_id, outcome]) => {
    const site = `https://${about.venue_id.replace("_", "-")}.example`;
    const [url, rules_url] = [`${site}/markets/${event_id}`, `${site}/rules/${event_id}`];
    return { ...about, asset_id, outcome, event_id, url, rules_url };
  });

export const EXAMPLE_MARKETS: readonly ExampleMarket[] = [
  ...question(
    "fed-cut-jan-2030",
    {
      venue_id: "venue_one",
      title: "Fed cuts rates at its January 2030 meeting?",
      category: "Economics",
      description: "Yes if the upper bound of the target range is lower after the meeting.",
      closes_at: "2030-01-30T19:00:00Z",
    },
    { "0x1": "Yes", "0x2": "No" },
  ),
  ...question(
    "btc-250k-2029",
    {
      venue_id: "venue_one",
      title: "Bitcoin above $250,000 on 31 December 2029?",
      category: "Crypto",
      description: "Yes if the venue's reference price is above $250,000 at 23:59 UTC.",
      closes_at: "2029-12-31T23:59:00Z",
    },
    { "0x3": "Yes", "0x4": "No" },
  ),
  ...question(
    "world-cup-2030",
    {
      venue_id: "venue_two",
      title: "Winner of the 2030 World Cup",
      category: "Sports",
      description: "The team that wins the final, after extra time and penalties.",
      closes_at: "2030-07-21T18:00:00Z",
    },
    { "0x1": "Argentina", "0x2": "Spain", "0x3": "Another team" },
  ),
  ...question(
    "hottest-year-2029",
    {
      venue_id: "venue_two",
      title: "Hottest year on record in 2029?",
      category: "Climate",
      description: "Yes if 2029 is the warmest year of the Copernicus ERA5 record.",
      closes_at: "2030-01-10T12:00:00Z",
    },
    { "0x4": "Yes" },
  ),
  ...question(
    "us-2032-party",
    {
      venue_id: "venue_three",
      title: "US presidential election of 2032: winning party",
      category: "Politics",
      description: "The party of the candidate who receives a majority of the electoral votes.",
      closes_at: "2032-11-02T23:00:00Z",
    },
    { "0x1": "Democratic", "0x2": "Republican" },
  ),
  ...question(
    "moon-before-2031",
    {
      venue_id: "venue_three",
      title: "Crewed landing on the Moon before 2031?",
      category: "Science",
      description: "Yes if a crewed spacecraft lands on the Moon before 2031 by UTC.",
      closes_at: "2030-12-31T23:59:00Z",
    },
    { "0x3": "Yes", "0x4": "No" },
  ),
];

/** Of the venue without a chain: the living market trades both, and its makers quote with USDC. */
export const EXAMPLE_PAIR = [
  { venue_id: CHAINLESS_VENUE, asset_id: "0x1", outcome: "Yes" },
  { venue_id: CHAINLESS_VENUE, asset_id: "0x2", outcome: "No", complement: "0x1" },
].map((token) => ({ ...token, title: "A snowy 24 December 2029 in Vienna?" }));

export async function listExamplePair(stack: Stack): Promise<void> {
  for (const { venue_id: venue, asset_id, ...terms } of EXAMPLE_PAIR)
    await order(stack, "market set", { venue, "asset-id": asset_id, ...terms });
}

/** Lists them with the operator's command, as a deployment would. Only the test market is hidden. */
export async function listExampleMarkets(stack: Stack): Promise<number> {
  const markets = JSON.stringify([TEST_MARKET, ...EXAMPLE_MARKETS]);
  await order(stack, "market import", { markets });
  return EXAMPLE_MARKETS.length;
}
