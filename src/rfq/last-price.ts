/** How far a quote may be from the last price of its asset (`max_deviation` of a protection). */
import { CANDLE_STEPS } from "../archive/candles.ts";
import { atom, type Columns, type Expr, expr, literal } from "../platform/sql.ts";
import { reject, type Result } from "./command.ts";

type Priced = Columns<"maker_id" | "price" | "confirm_price" | "min_priced">;

/** The price of the newest trade that was not smaller than `smallest`. NULL without one. */
export function lastPrice(asset: Expr, smallest: Expr): Expr {
  return expr`SELECT coalesce(
    (SELECT m.price FROM matches m WHERE substr(m.asset, -16) = substr(${asset}, -16)
      AND m.asset = ${asset} AND m.amount >= ${smallest} ORDER BY m.at DESC, m.match_id DESC LIMIT 1),
    (SELECT k.close FROM candles k WHERE k.asset = ${asset} AND k.step = ${literal(CANDLE_STEPS["1d"])}
      ORDER BY k.start DESC LIMIT 1))`;
}

/** Condition over `requests r`: the price is not too far, or there is nothing to compare it with. */
export function priceInRange(c: Priced): Expr {
  return expr`${c.confirm_price} IS NOT NULL OR NOT EXISTS (SELECT 1 FROM protections p
    WHERE p.user_id = ${c.maker_id}
      AND abs(${c.price} - ${lastPrice(atom("r.asset"), c.min_priced)}) > p.max_deviation)`;
}

export type RangeFacts = {
  readonly last_price: number | null;
  readonly max_deviation: number | null;
};

export function rangeFacts(c: Priced, asset: string): Columns<keyof RangeFacts> {
  return {
    last_price: lastPrice(atom("?", [asset]), c.min_priced),
    max_deviation: expr`SELECT p.max_deviation FROM protections p WHERE p.user_id = ${c.maker_id}`,
  };
}

export function priceOutOfRange({ last_price, max_deviation }: RangeFacts): Result {
  return reject(
    "price_out_of_range",
    "The price is too far from the last one. If you mean it, send confirm_price.",
    { last_price, max_deviation },
  );
}
