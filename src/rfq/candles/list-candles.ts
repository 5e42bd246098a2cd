/** Candles of one asset: those stored, continued with the matches that are not in them yet. */
import * as z from "zod";
import { toHex } from "../../assets/amount.ts";
import { assetKey, type OutcomeToken } from "../../assets/asset.ts";
import {
  CANDLE_CURSOR,
  CANDLE_STEPS,
  type CandleInterval,
  mergeCandles,
  NOT_IN_CANDLES,
  type PricedDatabase,
  tradesAsCandles,
} from "../../archive/candles.ts";
import { fetchCount, type Page, pageFields, type PageQuery, pageOf } from "../../http/cursor.ts";
import { all, literal, sql } from "../../platform/sql.ts";
import { toWireTime } from "../../platform/time.ts";
import type { Period } from "../examined-page.ts";

/** Candles are sorted by their start, in minutes since 1970. */
export const candlePage = pageFields(z.tuple([z.int().min(0)]).transform(([start]) => start));

const MINUTE_MS = 60_000;
/** Beyond any start. */
const NO_END = 2 ** 40;

type CandleRow = {
  readonly start: number;
  readonly open: number;
  readonly high: number;
  readonly low: number;
  readonly close: number;
  readonly amount: string;
  readonly usdc_amount: string;
  readonly trades: number;
  readonly final: number;
};

/** Newest first. The period is that of their starts. */
export async function listCandles(
  { db, settings }: PricedDatabase,
  { interval, from = 0, to, ...token }: OutcomeToken & Period & { interval: CandleInterval },
  page: PageQuery<number>,
): Promise<Page<ReturnType<typeof candleView>>> {
  const step = CANDLE_STEPS[interval];
  const asset = assetKey(token);
  const first = Math.ceil(from / MINUTE_MS);
  const last = to === undefined ? NO_END : Math.floor(to / MINUTE_MS);
  const end = Math.min(last + 1, page.last_cursor?.position ?? NO_END);
  const shown = sql`start >= ${first} AND start < ${end} ORDER BY start DESC LIMIT ${fetchCount(page)}`;
  const recent = sql`substr(m.asset, -16) = ${asset.slice(-16)} AND m.asset = ${asset}
    AND ${NOT_IN_CANDLES}`;
  const rows = await all<CandleRow>(
    db,
    sql`SELECT start, open, high, low, close, CAST(amount AS TEXT) AS amount,
        CAST(usdc_amount AS TEXT) AS usdc_amount, trades,
        start + ${literal(step)} <= ${CANDLE_CURSOR} AS final
      FROM (${mergeCandles(sql`SELECT * FROM (SELECT *, x'' AS tie FROM candles
          WHERE asset = ${asset} AND step = ${literal(step)} AND ${shown})
        UNION ALL ${tradesAsCandles(settings, [step], recent)}`)})
      WHERE ${shown}`,
  );
  return pageOf(page, rows, candleView, ({ start }) => [start]);
}

function candleView({ start, amount, usdc_amount: usdc, final, ...candle }: CandleRow) {
  return {
    start: toWireTime(start * MINUTE_MS),
    ...candle,
    amount: toHex(BigInt(amount)),
    usdc_amount: toHex(BigInt(usdc)),
    final: final === 1,
  };
}
