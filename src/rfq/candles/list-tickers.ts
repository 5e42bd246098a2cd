/** What a venue's assets traded at in the last day, from memory. */
import { toHex } from "../../assets/amount.ts";
import {
  CANDLE_STEPS,
  mergeCandles,
  NOT_IN_CANDLES,
  tradesAsCandles,
} from "../../archive/candles.ts";
import { Remembered } from "../../http/remembered.ts";
import { boundedSum } from "../../platform/bounded-sum.ts";
import { NOW } from "../../platform/commit.ts";
import { all, literal, sql } from "../../platform/sql.ts";
import { toWireTime } from "../../platform/time.ts";
import type { Venue } from "../../platform/venues.ts";
import { assetView } from "../rfq-records.ts";

/** So old may a response be before it is read again; `Remembered` serves none three times as old. */
const FRESH_MS = 3_000;
/** Those of the largest volume. Bounds a response to some 500 KB. */
const MAX_TICKERS = 1_000;
const HOURS = 24;
const STEP = CANDLE_STEPS["1h"];

type Tickers = Awaited<ReturnType<typeof readTickers>>;

/** The tickers of each venue that was asked for. */
export class TickerList {
  readonly #venues = new Map<Venue, Remembered<Tickers>>();

  get(env: { readonly DB: D1Database }, venue: Venue): Promise<Tickers> {
    const known = this.#venues.get(venue) ?? new Remembered<Tickers>(FRESH_MS);
    this.#venues.set(venue, known);
    return known.get(env, () => readTickers(env.DB, venue));
  }
}

type TickerRow = {
  readonly asset: string;
  /** Of each hour with a trade: when it starts in minutes since 1970, its first and last price. */
  readonly hours: string;
  readonly amount: string;
  readonly usdc_amount: string;
  readonly trades: number;
  readonly last_at: number;
  /** When the oldest of the hours starts. */
  readonly first_hour: number;
  readonly now: number;
};

async function readTickers(db: D1Database, venue: Venue) {
  const firstHour = sql`(${NOW} / 3600000 - ${literal(HOURS - 1)}) * 60`;
  const recent = sql`substr(m.asset, 1, instr(m.asset, ':') - 1) = ${venue} AND ${NOT_IN_CANDLES}`;
  const hours = mergeCandles(sql`SELECT *, x'' AS tie FROM candles INDEXED BY candles_start
      WHERE step = ${literal(STEP)} AND step < 1440 AND start >= ${firstHour}
        AND asset > ${`${venue}:`} AND asset < ${`${venue};`}
    UNION ALL ${tradesAsCandles([STEP], recent)}`);
  const rows = await all<TickerRow>(
    db,
    sql`SELECT asset, json_group_array(json_array(start, open, close)) AS hours,
        CAST(${boundedSum("amount")} AS TEXT) AS amount,
        CAST(${boundedSum("usdc_amount")} AS TEXT) AS usdc_amount,
        sum(trades) AS trades, max(last_at) AS last_at, ${firstHour} AS first_hour, ${NOW} AS now
      FROM (${hours}) WHERE start >= ${firstHour}
      GROUP BY asset ORDER BY ${boundedSum("usdc_amount")} DESC, asset LIMIT ${MAX_TICKERS}`,
  );
  return { items: rows.map(tickerView), as_of: toWireTime(rows[0]?.now ?? Date.now()) };
}

function tickerView(row: TickerRow) {
  // Safe cast: the query makes an array of these.
  const hours = (JSON.parse(row.hours) as [start: number, open: number, close: number][]).toSorted(
    ([one], [other]) => one - other,
  );
  const [, first = 0] = hours.at(0) ?? [];
  const [, , last = 0] = hours.at(-1) ?? [];
  const closes = new Map(hours.map(([start, , close]) => [start, close]));
  return {
    ...assetView(row.asset),
    last_price: last,
    last_price_at: toWireTime(row.last_at),
    change: last - first,
    amount: toHex(BigInt(row.amount)),
    usdc_amount: toHex(BigInt(row.usdc_amount)),
    trades: row.trades,
    prices: Array.from(
      { length: HOURS },
      (_, hour) => closes.get(row.first_hour + hour * STEP) ?? null,
    ),
  };
}
