/** Daily sums of the matches that were deleted. */
import { literal, raw, type Sql, sql } from "../platform/sql.ts";

/** Not a parameter: D1 binds numbers as REAL, and a day is a whole number. */
export const DAY_MS = literal(86_400_000);

/** A sum stops at 2^62, because an overflow would refuse the batch that deletes the matches. */
const sumOf = (column: string): Sql =>
  raw(`CAST(min(total(m.${column}), 4611686018427387904) AS INTEGER)`);
const added = (column: string): Sql =>
  raw(`${column} = min(${column} + excluded.${column}, 4611686018427387904)`);

/** Adds the matches `m` that fulfil a condition. */
export function addVenueDays(condition: Sql): Sql {
  return sql`INSERT INTO venue_days (day, venue, trades, usdc_amount, taker_fee, maker_fee)
    SELECT m.at / ${DAY_MS}, substr(m.asset, 1, instr(m.asset, ':') - 1), count(*),
      ${sumOf("usdc_amount")}, ${sumOf("taker_fee")}, ${sumOf("maker_fee")}
    FROM matches m WHERE ${condition} GROUP BY 1, 2
    ON CONFLICT (day, venue) DO UPDATE SET trades = trades + excluded.trades,
      ${added("usdc_amount")}, ${added("taker_fee")}, ${added("maker_fee")}`;
}
