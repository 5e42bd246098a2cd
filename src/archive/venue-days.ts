/** Daily sums of the matches that were deleted. */
import { addBounded, boundedSum } from "../platform/bounded-sum.ts";
import { literal, type Sql, sql } from "../platform/sql.ts";

/** Not a parameter: D1 binds numbers as REAL, and a day is a whole number. */
export const DAY_MS = literal(86_400_000);

/** Adds the matches `m` that fulfil a condition. */
export function addVenueDays(condition: Sql): Sql {
  return sql`INSERT INTO venue_days (day, venue, trades, usdc_amount, taker_fee, maker_fee)
    SELECT m.at / ${DAY_MS}, substr(m.asset, 1, instr(m.asset, ':') - 1), count(*),
      ${boundedSum("m.usdc_amount")}, ${boundedSum("m.taker_fee")}, ${boundedSum("m.maker_fee")}
    FROM matches m WHERE ${condition} GROUP BY 1, 2
    ON CONFLICT (day, venue) DO UPDATE SET trades = trades + excluded.trades,
      ${addBounded("venue_days", "usdc_amount")}, ${addBounded("venue_days", "taker_fee")}, ${addBounded("venue_days", "maker_fee")}`;
}
