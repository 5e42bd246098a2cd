/**
 * Candles of the matches. Each match is added once: by the cron task that moves `candle_cursor`
 * past its minute, or by the release that deletes it before. Both add in the order of time.
 */
import type { Config } from "../platform/config.ts";
import { addBounded, boundedSum } from "../platform/bounded-sum.ts";
import { expr, type Expr, raw, type Sql, sql } from "../platform/sql.ts";
import { venueOf } from "../platform/venues.ts";

/** Lengths of candles in minutes. */
export const CANDLE_STEPS = { "1m": 1, "1h": 60, "1d": 1_440 } as const;
export type CandleInterval = keyof typeof CANDLE_STEPS;

/** Scalar: all matches before this minute since 1970 are in candles. */
export const CANDLE_CURSOR: Expr = expr`coalesce((SELECT minute FROM candle_cursor), 0)`;

/** Condition on match `m`: it is not in candles yet. */
export const NOT_IN_CANDLES: Expr = expr`m.at >= ${CANDLE_CURSOR} * 60000`;

/** Condition on match `m`: its market is no test (`market set --test`). */
export const NO_TEST: Expr = expr`NOT EXISTS (SELECT 1 FROM markets k
  WHERE k.asset = m.asset AND k.test = 1)`;

/** Says from which amount on a trade of a venue sets a price. */
export type PricedFrom = Pick<Config, "VENUES">;

export type PricedDatabase = { readonly db: D1Database; readonly settings: PricedFrom };

/**
 * Condition on match `m`: it sets prices that others see. A trade of dust does not, because anyone
 * could buy any last price with it. Trades of a venue that is no longer served all count.
 */
export function setsPrice({ VENUES }: PricedFrom): Expr {
  const least = VENUES.map(({ venue_id, min_priced_trade }) => [venue_id, min_priced_trade]);
  return expr`${NO_TEST} AND m.amount >= coalesce(${JSON.stringify(Object.fromEntries(least))}
    ->> ${venueOf("m.asset")}, 1)`;
}

/** Selects matches `m` as candles of one trade. `tie` orders those of one instant. */
export function tradesAsCandles(from: PricedFrom, steps: readonly number[], condition: Sql): Sql {
  return sql`SELECT m.asset, s.value AS step, m.at / 60000 / s.value * s.value AS start,
      m.price AS open, m.price AS high, m.price AS low, m.price AS close, m.amount,
      m.usdc_amount, 1 AS trades, m.at AS last_at, m.match_id AS tie
    FROM matches m CROSS JOIN json_each(${JSON.stringify(steps)}) s WHERE ${condition} AND ${setsPrice(from)}`;
}

/** Merges candles of the same asset, step and start. */
export function mergeCandles(candles: Sql): Sql {
  const rank = (order: "ASC" | "DESC") =>
    raw(
      `row_number() OVER (PARTITION BY asset, step, start ORDER BY last_at ${order}, tie ${order})`,
    );
  return sql`SELECT asset, step, start, max(iif(is_first = 1, open, NULL)) AS open,
      max(high) AS high, min(low) AS low, max(iif(is_last = 1, close, NULL)) AS close,
      ${boundedSum("amount")} AS amount, ${boundedSum("usdc_amount")} AS usdc_amount,
      sum(trades) AS trades, max(last_at) AS last_at
    FROM (SELECT *, ${rank("ASC")} AS is_first, ${rank("DESC")} AS is_last FROM (${candles}))
    GROUP BY asset, step, start`;
}

/** Adds the matches `m` that fulfil a condition. They come after those that were added before. */
export function addToCandles(from: PricedFrom, condition: Sql): Sql {
  const trades = tradesAsCandles(from, Object.values(CANDLE_STEPS), condition);
  return sql`INSERT INTO candles (asset, step, start, open, high, low, close, amount, usdc_amount,
      trades, last_at)
    ${mergeCandles(trades)}
    ON CONFLICT (asset, step, start) DO UPDATE SET high = max(candles.high, excluded.high),
      low = min(candles.low, excluded.low), close = excluded.close,
      ${addBounded("candles", "amount")}, ${addBounded("candles", "usdc_amount")},
      trades = candles.trades + excluded.trades, last_at = excluded.last_at`;
}
