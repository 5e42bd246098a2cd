/**
 * A living market for `npm run dev -- --makers 5 --takers 20`: makers who quote around the fair
 * price of each example market, and takers who trade there now and then. The fair prices wander, so
 * tickers and candles show something. It uses the client package, as any program of a user does.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type Client,
  type LiveRequests,
  type MarketAsset,
  NoAnswer,
  Problem,
  type QuoteRequest,
  type Side,
} from "../packages/client/src/index.ts";
import { Dice } from "./actors/dice.ts";
import { CHAINLESS_VENUE, LOCAL_VENUES } from "./stack/local-venues.ts";

export type Trader = { readonly client: Client; readonly role: "maker" | "taker" };

type NamedMarket = MarketAsset & { readonly title: string };

type Options = {
  readonly traders: readonly Trader[];
  readonly markets: readonly NamedMarket[];
  readonly log: (line: string) => void;
};

/** How far a fair price moves at most in a step, scaled by 1e6, and within which bounds. */
const STEP = 4_000;
const STEP_MS = 2_000;
const [LEAST, MOST] = [30_000, 970_000];
/** Half of what a maker earns at least, and how much more some ask. */
const HALF_SPREAD = 4_000;
const GREED = 12_000;
const QUOTE_LIFE_SECS = 15;
/** A taker waits so long between two trades, on average, and for quotes. */
const PAUSE_MS = 15_000;
const QUOTES_MS = 800;
/** In millionths of a token. */
const [SMALLEST, LARGEST] = [1_000_000, 250_000_000];
const dice = new Dice(randomUUID());

/**
 * Fair prices by asset. Each outcome has a weight that wanders, with a pull to one half. The
 * outcomes of a question cost one USDC together.
 */
export class FairPrices {
  readonly #weights = new Map<string, number>();
  /** The outcomes of the question of each asset. */
  readonly #outcomes = new Map<string, readonly string[]>();
  readonly #timer: NodeJS.Timeout;

  constructor(markets: readonly NamedMarket[]) {
    for (const question of Map.groupBy(markets, ({ title }) => title).values()) {
      const outcomes = question.map(keyOf);
      for (const key of outcomes) {
        this.#weights.set(key, dice.between(150_000, 850_000));
        this.#outcomes.set(key, outcomes);
      }
    }
    this.#timer = setInterval(() => {
      for (const [key, weight] of this.#weights) {
        const next = weight + dice.between(-STEP, STEP) + (500_000 - weight) / 2_000;
        this.#weights.set(key, clamp(next));
      }
    }, STEP_MS);
  }

  of(asset: MarketAsset): number | undefined {
    const key = keyOf(asset);
    const weight = this.#weights.get(key);
    const weights = this.#outcomes.get(key)?.map((outcome) => this.#weights.get(outcome) ?? 0);
    if (weight === undefined || weights === undefined || weights.length === 1) return weight;
    return clamp((weight / weights.reduce((sum, each) => sum + each, 0)) * 1_000_000);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

/** Resolves when the makers listen. `stop` ends all of them. */
export async function startLivingMarket(options: Options): Promise<{ stop(): void }> {
  const fair = new FairPrices(options.markets);
  const venues: LiveRequests[] = [];
  const stopping = new AbortController();
  const makers = options.traders.filter(({ role }) => role === "maker");
  for (const { client } of makers) {
    const greed = dice.between(0, GREED);
    for (const venue_id of [...LOCAL_VENUES, CHAINLESS_VENUE]) {
      const requests = client.requests({ venue_id });
      venues.push(requests);
      requests
        .keepQuoted(async (request, side) => {
          const price = priceFor(fair, { ...request, side }, greed);
          if (price !== undefined) await quote(requests, { ...request, side }, price, options.log);
        })
        .catch(ignore);
    }
  }
  await Promise.all(venues.map((requests) => requests.ready()));
  for (const { client, role } of options.traders)
    if (role === "taker") void takeTurns(client, { ...options, stopped: stopping.signal });
  return {
    stop: () => {
      stopping.abort();
      fair.stop();
      for (const requests of venues) requests.close();
    },
  };
}

/** Undefined: an asset without a fair price is left to others. */
function priceFor(
  fair: FairPrices,
  request: QuoteRequest & { side: Side },
  greed: number,
): number | undefined {
  const middle = fair.of(request);
  if (middle === undefined) return undefined;
  const margin = HALF_SPREAD + dice.between(0, greed);
  return clamp(request.side === "Bid" ? middle + margin : middle - margin);
}

async function quote(
  requests: LiveRequests,
  { request_id, side, venue_id }: QuoteRequest & { side: Side },
  price: number,
  log: (line: string) => void,
): Promise<void> {
  await requests
    .quote({
      request_id,
      side,
      price,
      expires_in_secs: QUOTE_LIFE_SECS,
      // The makers have no tokens of a venue without a chain, where a pair issues them.
      ...(venue_id === CHAINLESS_VENUE ? { backing: "usdc" as const } : {}),
    })
    .catch((error: unknown) => complain(error, log));
}

async function takeTurns(
  client: Client,
  { markets, log, stopped }: Options & { readonly stopped: AbortSignal },
): Promise<void> {
  while (!stopped.aborted) {
    await sleep(dice.between(0, 2 * PAUSE_MS));
    if (!stopped.aborted)
      await take(client, dice.pick(markets)).catch((error) => complain(error, log));
  }
}

/** Sells only what it holds. Sometimes it finds the best quote too dear and leaves. */
async function take(client: Client, { venue_id, asset_id }: MarketAsset): Promise<void> {
  const { balance } = await client.custody.balance({ venue_id, asset_id });
  const amount = BigInt(dice.between(SMALLEST, LARGEST));
  const side: Side = balance >= amount && dice.chance(0.5) ? "Ask" : "Bid";
  const request = await client.rfq.request({
    venue_id,
    asset_id,
    amount,
    side,
    expires_in_secs: QUOTE_LIFE_SECS,
  });
  await sleep(QUOTES_MS);
  const { items } = await client.rfq.quotes({ ...request, status: "open", limit: 1 }).page();
  const [best] = items;
  if (best === undefined || dice.chance(0.1)) await client.rfq.cancelRequest(request);
  else await client.rfq.accept(best);
}

/** What happens in any market is not said: a quote that came too late, or funds that ran out. */
function complain(error: unknown, log: (line: string) => void): void {
  if (error instanceof Problem && [404, 409].includes(error.status)) return;
  if (error instanceof NoAnswer) return;
  if (error instanceof Error && /closed|abort/i.test(error.message)) return;
  log(`living market: ${error instanceof Error ? error.message : String(error)}`);
}

function ignore(): void {
  // The stream was closed, because the stack ends.
}

function keyOf({ venue_id, asset_id }: MarketAsset): string {
  return `${venue_id}:${asset_id}`;
}

function clamp(price: number): number {
  return Math.round(Math.min(MOST, Math.max(LEAST, price)));
}
