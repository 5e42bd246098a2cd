/** Adds the matches of closed minutes to the candles. Cron calls it once a minute. */
import {
  addToCandles,
  CANDLE_CURSOR,
  CANDLE_STEPS,
  type PricedFrom,
} from "../../archive/candles.ts";
import { commitOrThrow, newGroup, NOW } from "../../platform/commit.ts";
import { first, literal, sql } from "../../platform/sql.ts";
import { rowsOf, type Trim } from "../../platform/trim.ts";

/** Minutes of one batch, from the first with a match. */
const MINUTES_PER_BATCH = 5;
const DAY_MINUTES = 1_440;
/** Minutes for which candles are kept, by their step. Daily candles are never deleted. */
export const CANDLES_KEPT = {
  [CANDLE_STEPS["1m"]]: 2 * DAY_MINUTES,
  [CANDLE_STEPS["1h"]]: 90 * DAY_MINUTES,
} as const;

/**
 * A minute is closed once a group began after it, as instants never go back. The batch moves the
 * cursor from where it was read, so a repeat adds nothing. Returns whether more minutes wait.
 */
export async function writeCandles(db: D1Database, settings: PricedFrom): Promise<boolean> {
  const next = await first<{ from: number; up_to: number; closed: number }>(
    db,
    sql`SELECT "from", closed, min(closed, first_at / 60000 + ${literal(MINUTES_PER_BATCH)}) AS up_to
      FROM (SELECT ${CANDLE_CURSOR} AS "from", ${NOW} / 60000 AS closed,
        (SELECT at FROM matches WHERE at >= ${CANDLE_CURSOR} * 60000 ORDER BY at LIMIT 1) AS first_at)
      WHERE first_at / 60000 < closed`,
  );
  if (next === undefined) return false;
  const { from, up_to: upTo, closed } = next;
  const group = newGroup();
  await commitOrThrow(db, group, [
    sql`INSERT INTO candle_cursor (one, minute, moved_group)
      SELECT 1, ${upTo}, ${group.seq} WHERE ${upTo} * 60000 <= ${group.at}
      ON CONFLICT (one) DO UPDATE SET minute = excluded.minute, moved_group = excluded.moved_group
        WHERE candle_cursor.minute = ${from}`,
    addToCandles(
      settings,
      sql`m.at >= ${from} * 60000 AND m.at < ${upTo} * 60000
        AND EXISTS (SELECT 1 FROM candle_cursor WHERE moved_group = ${group.seq})`,
    ),
  ]);
  return upTo < closed;
}

export const CANDLE_TRIMS: readonly Trim[] = Object.entries(CANDLES_KEPT).map(([step, kept]) =>
  rowsOf(
    "candles",
    "asset, step, start",
    sql`INDEXED BY candles_start WHERE step = ${literal(Number(step))} AND step < 1440
        AND start < ${NOW} / 60000 - ${literal(kept)}`,
  ),
);
