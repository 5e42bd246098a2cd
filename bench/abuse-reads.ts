/**
 * Reads of a user who has traded much and holds much, each repeated as fast as the attacks of
 * bench/abuse.ts send: own lists, and the public ones without a credential.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { ATTACKER, restFlood, type Stage, type Tally } from "./abuse-stage.ts";
import { httpRequest } from "./load.ts";
import { acceptsOf, type Market, openMarket, openRequests, quoteEach, sendAll } from "./market.ts";
import { fund, type Person, signed } from "./people.ts";

/** Each makes four events of the requester. */
const TRADES = 1_300;
const TRADES_AT_ONCE = 650;
/** A credential's trades in ten seconds are limited. */
const PAUSE_MS = 10_000;
const MARKETS = 1_000;
const HOURS = 24;

const OWN: readonly string[] = [
  "/account/events?types=deposit.orphaned&limit=500",
  "/account/events?limit=500",
  "/custody/get-ledger?min_amount=700000001&limit=500",
  "/custody/get-ledger?venue=venue_one&limit=500",
  "/custody/get-balances?limit=500",
  "/rfq/get-positions?limit=500",
  "/rfq/get-requests?label=none&limit=500",
  "/rfq/get-matches?venue_id=venue_one&label=none&limit=500",
  "/auth/get-audit-events?limit=500",
];
const PUBLIC: readonly string[] = [
  "/markets?limit=500",
  "/markets?q=outcome&category=none&limit=500",
  "/rfq/get-tickers?limit=500",
  "/rfq/get-candles?venue_id=venue_one&asset_id=ASSET&interval=1m&limit=500",
  "/rfq/get-trades?venue_id=venue_one&limit=500",
  "/status",
];

type Attack = (stage: Stage) => Promise<(ms: number) => Promise<Tally>>;

/** The attacks by name. The first one that runs makes the data of all. */
export function readAttacks(quick: boolean): Readonly<Record<string, Attack>> {
  let made: Promise<Reader> | undefined;
  const attack =
    (request: (reader: Reader) => Promise<Uint8Array>): Attack =>
    async (stage) => {
      made ??= makeReader(stage, quick ? 50 : TRADES);
      return restFlood(stage, [await request(await made)]);
    };
  return Object.fromEntries([
    ...OWN.map((target) => [
      `read: ${target}`,
      attack(({ person }) => signed(person, "GET", target, undefined, ATTACKER)),
    ]),
    ...PUBLIC.map((target) => [
      `public: ${target}`,
      attack(async ({ assetId }) =>
        httpRequest({
          method: "GET",
          target: target.replace("ASSET", assetId),
          headers: ATTACKER,
        }),
      ),
    ]),
  ]);
}

type Reader = { readonly person: Person; readonly assetId: string };

async function makeReader({ stack }: Stage, trades: number): Promise<Reader> {
  const market = await openMarket(stack, 1);
  for (let left = trades; left > 0; left -= TRADES_AT_ONCE) {
    await trade({ stack, market }, Math.min(left, TRADES_AT_ONCE));
    if (left > TRADES_AT_ONCE) await sleep(PAUSE_MS);
  }
  const listed = Array.from({ length: MARKETS }, (_, n) => `venue_one:0x3${n.toString(16)}`);
  await fund(stack.db, [market.requester.userId], listed, 1_000_000);
  const hour = Math.floor(Date.now() / 3_600_000) - HOURS + 1;
  await stack.db.batch([
    stack.db
      .prepare(
        `INSERT INTO markets (asset, title, outcome, event_id, category, folded, changed_group)
         SELECT value, 'Market ' || (key / 2), 'Outcome ' || key, 'event-' || (key / 2),
           'bench', 'market ' || (key / 2) || char(31) || 'outcome ' || key, 1 FROM json_each(?)`,
      )
      .bind(JSON.stringify(listed)),
    stack.db
      .prepare(
        `WITH RECURSIVE hours(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM hours WHERE n < ?)
         INSERT INTO candles (asset, step, start, open, high, low, close, amount, usdc_amount,
           trades, last_at)
         SELECT value, 60, (? + n) * 60, 500000, 600000, 400000, 510000, 1000, 500, 3,
           (? + n) * 3600000 + 1 FROM json_each(?), hours`,
      )
      .bind(HOURS - 1, hour, hour, JSON.stringify(listed)),
  ]);
  return { person: market.requester, assetId: market.assetId };
}

async function trade(
  { stack, market }: Pick<Stage, "stack"> & { readonly market: Market },
  count: number,
): Promise<void> {
  const requests = await openRequests(stack, market, count, 3_600);
  const quotes = await quoteEach(stack, market, requests, 300);
  await sendAll(stack, await acceptsOf(market, quotes));
}
