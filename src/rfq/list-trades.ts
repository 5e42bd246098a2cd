import { venueOf } from "../platform/venues.ts";
import { NO_TEST } from "../archive/candles.ts";
import { fetchCount, olderThan, type PageQuery, pageOf, type TimeId } from "../http/cursor.ts";
import { NOW } from "../platform/commit.ts";
import { all, type Expr, expr, readUuid, select, sql, TRUE } from "../platform/sql.ts";
import { OLDEST_READ } from "../platform/windows.ts";
import type { BookFilter, Period } from "./examined-page.ts";
import { TAPE_TRADE, type TradeRow, tradeView } from "./rfq-records.ts";

/** How far back the tape reaches. */
export const TAPE_MS = OLDEST_READ.tape.ms;

/** Everyone's trades of the last 24 hours, newest first, without parties and test markets. */
export async function listTrades(
  db: D1Database,
  { from = 0, to, ...book }: BookFilter & Period,
  page: PageQuery<TimeId>,
  tapeMs: number = TAPE_MS,
) {
  const since = expr`m.at > ${NOW} - ${tapeMs} AND m.at >= ${from}`;
  const until = to === undefined ? TRUE : expr`m.at <= ${to}`;
  const rows = await all<TradeRow>(
    db,
    sql`SELECT ${select(TAPE_TRADE)} FROM matches m
      WHERE ${inBook(book)} AND ${since} AND ${until} AND ${NO_TEST}
        AND ${olderThan(page, { at: "m.at", id: "m.match_id" })}
      ORDER BY m.at DESC, m.match_id DESC LIMIT ${fetchCount(page)}`,
  );
  return pageOf(page, rows, tradeView, (row) => ({ at: row.at, id: readUuid(row.match_id) }));
}

/** The indexes on the book and on the venue contain these very expressions. */
function inBook({ venue, assetId }: BookFilter): Expr {
  if (venue === undefined) return TRUE;
  if (assetId !== undefined) {
    const asset = `${venue}:${assetId}`;
    return expr`substr(m.asset, -16) = ${asset.slice(-16)} AND m.asset = ${asset}`;
  }
  return expr`${venueOf("m.asset")} = ${venue}`;
}
