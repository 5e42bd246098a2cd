/** The rules of the grid in which a maker prices requests. */
import type { Quote, QuoteRequest, RequestSize, Ticker } from "@rfq-custody/client";
import { formatTokens, tokensFor, worth } from "../units.ts";

export type Side = Quote["side"];
/** A request that has ended stays as a row for as long as somebody works in the grid. */
export type Row = { readonly request: QuoteRequest; readonly ended: boolean };

/** More rows than anyone prices. The requests that end first are shown. */
const SHOWN = 100;
const ONE = 1_000_000;
/** Default prices are multiples of a tenth of a cent. */
const STEP = 1_000;

/**
 * The rows of the next frame. `open` are the open requests, the first to end first. `held` is the
 * row that has the focus, empty if the pointer is over the grid, and null if nobody works in it.
 * While somebody does, no row changes its place: a new request comes last, or replaces an ended one
 * if the grid is full.
 */
export function arrange(
  before: readonly Row[],
  open: readonly QuoteRequest[],
  held: string | null,
): readonly Row[] {
  if (held === null) return open.slice(0, SHOWN).map((request) => ({ request, ended: false }));
  const stillOpen = new Set(open.map(({ request_id }) => request_id));
  const shown = new Set(before.map(({ request }) => request.request_id));
  const rows = before.map(({ request }): Row => {
    return { request, ended: !stillOpen.has(request.request_id) };
  });
  const free = rows.flatMap(({ request, ended }, index) =>
    ended && request.request_id !== held ? [index] : [],
  );
  for (const request of open) {
    if (shown.has(request.request_id)) continue;
    const place = rows.length < SHOWN ? rows.length : free.shift();
    if (place === undefined) break;
    rows[place] = { request, ended: false };
  }
  return rows;
}

/** `spread` away from the last price in the maker's favour. Null without one of them. */
export function defaultPrice(
  side: Side,
  last: number | null,
  spread: number | null,
): number | null {
  if (last === null || spread === null) return null;
  const price =
    side === "Bid"
      ? Math.ceil((last + spread) / STEP) * STEP
      : Math.floor((last - spread) / STEP) * STEP;
  return Math.min(Math.max(price, STEP), ONE - STEP);
}

/** The most a maker can lose: what it pays, or for tokens sold, what they would have won. */
export function atRisk(request: RequestSize, side: Side, price: number): bigint {
  return worth(tokensOf(request, price), side === "Ask" ? price : ONE - price);
}

function tokensOf({ amount, usdc_amount }: RequestSize, price: number): bigint {
  return amount ?? tokensFor(usdc_amount ?? 0n, price);
}

/**
 * Why a quote at this price is not sent, or null. `funds`: tokens to sell, or USDC to buy with, or
 * null if nobody knows yet.
 */
export function obstacle(
  request: RequestSize,
  side: Side,
  price: number,
  { funds, most }: { readonly funds: bigint | null; readonly most: bigint },
): string | null {
  if (funds !== null && promiseOf(request, side, price) > funds)
    return side === "Bid" ? "too few tokens" : "too few USDC";
  const over = atRisk(request, side, price) - most;
  return over > 0n ? `over limit by ${formatTokens(over)}` : null;
}

/** How far `price` is from the last one, if that is more than `most` allows, or null. */
export function farFrom(last: number | null, price: number, most: number | null): number | null {
  const distance = last === null ? 0 : Math.abs(price - last);
  return most !== null && distance > most ? distance : null;
}

/** The price one step up or down, within what a price can be. */
export function stepFrom(price: number, direction: 1 | -1): number {
  return Math.min(Math.max(price + direction * STEP, STEP), ONE - STEP);
}

/** What a quote at this price sets aside: tokens to sell, or USDC to buy with. */
export function promiseOf(request: RequestSize, side: Side, price: number): bigint {
  const tokens = tokensOf(request, price);
  return side === "Bid" ? tokens : worth(tokens, price);
}

/** The nearest field in this direction that is not off, or null. */
export function nextField(off: readonly boolean[], from: number, step: 1 | -1): number | null {
  for (let index = from + step; index in off; index += step) if (off[index] === false) return index;
  return null;
}

const HOUR_MS = 3_600_000;

/** The last price of the hour after the one of `at`. Until that has ended, the last price. */
export function priceAfter({ prices, last_price }: Ticker, at: string, now: number): number | null {
  const age = Math.floor(now / HOUR_MS) - Math.floor(Date.parse(at) / HOUR_MS);
  if (age < 2) return last_price;
  return age >= prices.length
    ? null
    : (prices.slice(0, -age + 1).findLast((price) => price !== null) ?? null);
}

/** Averages of equal groups in order, at most `count`, for the bars of a chart. */
export function averages(values: readonly number[], count: number): number[] {
  const size = Math.max(1, Math.ceil(values.length / count));
  return Array.from({ length: Math.ceil(values.length / size) }, (_, index) => {
    const group = values.slice(index * size, (index + 1) * size);
    return group.reduce((sum, value) => sum + value, 0) / group.length;
  });
}
