/** What a position has cost, what it is worth, and what it has won or lost so far. */
import type { Position } from "@rfq-custody/client";
import { worth } from "./units.ts";

/** Null without a cost or a price: tokens that were deposited, or that nobody has traded. */
export function resultOf({
  amount,
  average_price,
  realized,
  value,
}: Pick<Position, "amount" | "average_price" | "realized" | "value">): bigint | null {
  if (average_price === null || realized === null) return null;
  if (value === null) return amount === 0n ? realized : null;
  return realized + value - worth(amount, average_price);
}

/** What the tokens held and sold have cost, those that were deposited too. */
export function costOf({ amount, sold, average_price }: Position): bigint {
  return average_price === null ? 0n : worth(amount + sold, average_price);
}

/** Of those of which it is known, and what they cost. */
export function totalResult(positions: readonly Position[]): { result: bigint; paid: bigint } {
  let [result, paid] = [0n, 0n];
  for (const position of positions) {
    const own = resultOf(position);
    if (own === null) continue;
    result += own;
    paid += costOf(position);
  }
  return { result, paid };
}
