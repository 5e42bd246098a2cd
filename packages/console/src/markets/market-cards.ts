/** Markets as cards: the outcomes of one question together, the most traded first. */
import type { Market, Ticker } from "@rfq-custody/client";
import { assetKey } from "../units.ts";

export type Outcome = Market & { readonly ticker: Ticker | undefined };
export type MarketCard = {
  readonly question: string;
  readonly title: string;
  readonly venue_id: string;
  readonly closes_at: string | null;
  /** The likeliest first. */
  readonly outcomes: readonly Outcome[];
  /** USDC native units of the last day, of all outcomes. */
  readonly volume: bigint;
  /** The largest change of an outcome in the last day, up or down. */
  readonly moved: number;
};

/** The title is part of it, because a card shows only one. */
export function questionOf({ venue_id, event_id, title }: Market): string {
  return JSON.stringify([venue_id, event_id, title]);
}

export function cardsOf(
  markets: readonly Market[],
  tickers: ReadonlyMap<string, Ticker>,
): MarketCard[] {
  const groups = Map.groupBy(markets, questionOf);
  const cards = [...groups].flatMap(([question, group]): MarketCard[] => {
    const [first] = group;
    if (first === undefined) return [];
    const outcomes = group
      .map((market) => ({ ...market, ticker: tickers.get(assetKey(market)) }))
      .toSorted((one, other) => (other.ticker?.last_price ?? -1) - (one.ticker?.last_price ?? -1));
    const volume = outcomes.reduce((sum, { ticker }) => sum + (ticker?.usdc_amount ?? 0n), 0n);
    const moved = Math.max(...outcomes.map(({ ticker }) => Math.abs(ticker?.change ?? 0)));
    const { title, venue_id, closes_at } = first;
    return [{ question, title, venue_id, closes_at, outcomes, volume, moved }];
  });
  return cards.toSorted(
    (one, other) =>
      Number(other.volume > one.volume) - Number(other.volume < one.volume) ||
      (one.title < other.title ? -1 : 1),
  );
}

/** The line through the hours' prices in a box, or null without two. A gap keeps its last price. */
export function sparklineOf(
  { prices, last_price }: Pick<Ticker, "prices" | "last_price">,
  { width, height }: { readonly width: number; readonly height: number },
): { readonly path: string; readonly startY: string; readonly endY: string } | null {
  const known: number[] = [];
  for (const price of prices) {
    const shown = price ?? known.at(-1);
    if (shown !== undefined) known.push(shown);
  }
  known.push(last_price);
  if (known.length < 3) return null;
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const y = (price: number) =>
    (high === low ? height / 2 : height - ((price - low) / (high - low)) * height).toFixed(1);
  const x = (index: number) => ((index / (known.length - 1)) * width).toFixed(1);
  const path = known
    .map((price, index) => `${index === 0 ? "M" : "L"}${x(index)} ${y(price)}`)
    .join("");
  return { path, startY: y(known[0] ?? 0), endY: y(last_price) };
}
