/**
 * Makers re-price all the time, and a taker who is far away accepts what they saw. By price the
 * taker gets the best quote of that instant, however often the quote that they saw was replaced.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import {
  type Match,
  Problem,
  type Quote,
  type QuoteRequest,
} from "../../packages/client/src/index.ts";
import { rounds } from "../support/depth.ts";
import {
  fund,
  newAsset,
  newTrader,
  sharedStack,
  SLOW_MACHINE,
  type Trader,
} from "../support/node/stack.ts";

const MAKERS = 5;
const RE_PRICE_MS = 100;
/** From what the taker sees to their accept. */
const AWAY_MS = 120;
const RACES = rounds(20, 100);
const AMOUNT = 10n;
/** Few, so that prices are often equal. All makers stay within them. */
const PRICES = [400_000, 420_000, 440_000, 460_000, 480_000, 500_000] as const;
const WORST = 500_000;

/** When a quote was open for certain, by the clock of this process. */
type Held = { price: number; from: number; to: number };

it("an accept by price wins against makers who re-price", { timeout: 300_000 }, async () => {
  const stack = await sharedStack();
  const asset = newAsset();
  const taker = await newTrader(stack);
  const makers: Trader[] = [];
  while (makers.length < MAKERS) makers.push(await newTrader(stack));
  const amount = BigInt(RACES) * AMOUNT;
  await fund(stack, [
    { trader: taker, usdc: amount },
    ...makers.map((trader) => ({ trader, tokens: { asset, amount } })),
  ]);
  let replaced = 0;
  for (let races = 0; races < RACES; races++) {
    const terms = { ...asset, amount: AMOUNT, side: "Bid" } as const;
    const { seen, match } = await race(taker, makers, await taker.client.rfq.request(terms));
    if (match.quote_id !== seen.quote_id) replaced += 1;
    await expectBest(taker, match);
  }
  expect(await taker.client.rfq.matches(asset).all()).toHaveLength(RACES);
  // Else nobody re-priced in time, and an accept by id would have won as well.
  expect(replaced).toBeGreaterThan(0);
});

/** Resolves when the taker has a match. */
async function race(
  taker: Trader,
  makers: readonly Trader[],
  { request_id }: QuoteRequest,
): Promise<{ seen: Quote; match: Match }> {
  const held: Held[] = [];
  const over = new AbortController();
  const opened = makers.map(() => Promise.withResolvers<void>());
  const quoting = Promise.all(
    makers.map((maker, index) =>
      quote(maker, request_id, { held, over: over.signal, opened: () => opened[index]?.resolve() }),
    ),
  );
  await Promise.race([quoting, Promise.all(opened.map(({ promise }) => promise))]);
  const { items } = await taker.client.rfq.quotes({ request_id, status: "open", limit: 1 }).page();
  const seen = items[0] ?? expect.fail("no quote is open");
  await sleep(AWAY_MS);
  const match = (await accept(taker, { ...seen, held })) ?? (await acceptAny(taker, request_id));
  over.abort();
  await quoting;
  return { seen, match };
}

/** Quotes that were open at the commit are not better, and no equal one is older. */
async function expectBest({ client }: Trader, { request_id, quote_id, price }: Match) {
  const losers = await client.rfq.quotes({ request_id, status: "rejected" }).all();
  const winner = await client.rfq.getQuote({ quote_id });
  expect(losers.length).toBeLessThan(MAKERS);
  for (const loser of losers) {
    expect(loser.price).toBeGreaterThanOrEqual(price);
    if (loser.price === price)
      expect(Date.parse(loser.created_at)).toBeGreaterThanOrEqual(Date.parse(winner.created_at));
  }
}

/** Accepts at the price that was seen, or undefined if no quote is as good any more. */
async function accept(
  { client }: Trader,
  { request_id, price, held }: Quote & { held: readonly Held[] },
): Promise<Match | undefined> {
  const sentAt = performance.now();
  try {
    const match = await client.rfq.accept({ request_id, price });
    expect(match.price).toBeLessThanOrEqual(price);
    return match;
  } catch (error) {
    const answeredAt = performance.now();
    if (!(error instanceof Problem) || error.code !== "no_quote_within") throw error;
    const { best_price } = error.body;
    if (best_price !== null) expect(best_price).toBeGreaterThan(price);
    const fitted = held.filter(
      ({ price: of, from, to }) => of <= price && from < sentAt && to > answeredAt,
    );
    expect(fitted).toEqual([]);
    return undefined;
  }
}

/** Each maker always has a quote at this price or better. */
async function acceptAny({ client }: Trader, request_id: string): Promise<Match> {
  const match = await client.rfq.accept({ request_id, price: WORST });
  expect(match.price).toBeLessThanOrEqual(WORST);
  return match;
}

/** Replaces a maker's quote again and again, until the request has its match. */
async function quote(
  { client }: Trader,
  request_id: string,
  { held, over, opened }: { held: Held[]; over: AbortSignal; opened: () => void },
): Promise<void> {
  let last: { quote_id: string; open: Held } | undefined;
  while (!over.aborted) {
    const price = PRICES[Math.floor(Math.random() * PRICES.length)] ?? WORST;
    const terms = { request_id, price, expires_in_secs: 300 };
    if (last !== undefined) last.open.to = performance.now();
    try {
      const { quote_id } = await client.rfq.quote(
        { ...terms, ...(last && { replaces: last.quote_id }) },
        SLOW_MACHINE,
      );
      const open = { price, from: performance.now(), to: Number.POSITIVE_INFINITY };
      held.push(open);
      last = { quote_id, open };
    } catch (error) {
      // The match came before it.
      if (error instanceof Problem && error.code === "request_not_open") return;
      throw error;
    }
    opened();
    await sleep(RE_PRICE_MS);
  }
}
