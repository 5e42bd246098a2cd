/**
 * Which quote the button accepts. A better quote may take its place at once. A worse one never
 * does: when the shown quote ends, the button is dead for a second, so nobody accepts a price that
 * they did not read.
 */
import type { Match, Quote } from "@rfq-custody/client";

export type ShownQuote = {
  readonly quote: Quote | null;
  /** While the button is dead: until when, in Unix milliseconds. Null: it works. */
  readonly deadUntil: number | null;
};

export const NOTHING_SHOWN: ShownQuote = { quote: null, deadUntil: null };
const DEAD_MS = 1_000;

/** `open` are the open quotes of one side. Those past their time count as ended. */
export function nextShown(shown: ShownQuote, open: readonly Quote[], now: number): ShownQuote {
  if (shown.deadUntil !== null && now < shown.deadUntil) return shown;
  const live = open.filter(({ expires_at }) => Date.parse(expires_at) > now);
  const [first] = live;
  const best = live.reduce((one, other) => (isBetter(other, one) ? other : one), first);
  const { quote, deadUntil } = shown;
  // A dead button has shown an ended quote for a second.
  const current = deadUntil === null ? quote : null;
  if (current !== null && !live.some(({ quote_id }) => quote_id === current.quote_id))
    return { quote: current, deadUntil: now + DEAD_MS };
  if (best === undefined) return quote === null && deadUntil === null ? shown : NOTHING_SHOWN;
  if (current !== null && !isBetter(best, current)) return shown;
  return { quote: best, deadUntil: null };
}

/** For the requester: a buyer pays less, a seller gets more. */
export function isBetter(one: Quote, other: Quote | undefined): boolean {
  if (other === undefined) return false;
  return one.side === "Bid" ? one.price < other.price : one.price > other.price;
}

/** What the requester pays or gets in all. The service computed both parts. */
export function totalOf({ side, usdc_amount, fee }: Quote | Match): bigint {
  return side === "Bid" ? usdc_amount + fee : usdc_amount - fee;
}
