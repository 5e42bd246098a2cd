/** What assets traded at in the last day, from memory. */
import * as z from "zod";
import { toHex } from "../../assets/amount.ts";
import {
  CANDLE_STEPS,
  mergeCandles,
  NOT_IN_CANDLES,
  type PricedDatabase,
  type PricedFrom,
  tradesAsCandles,
} from "../../archive/candles.ts";
import { fetchCount, pageFields, type PageQuery, pageOf } from "../../http/cursor.ts";
import { Remembered } from "../../http/remembered.ts";
import { boundedSum } from "../../platform/bounded-sum.ts";
import { NOW } from "../../platform/commit.ts";
import { all, literal, MAX_NATIVE_UNITS, sql } from "../../platform/sql.ts";
import { toWireTime } from "../../platform/time.ts";
import type { Venue } from "../../platform/venues.ts";
import { assetView } from "../rfq-records.ts";

/** Age of a response before it is read again; `Remembered` serves none three times as old. */
const FRESH_MS = 3_000;
/** Bounds the memory of each isolate. A page bounds a response. */
const MAX_TICKERS = 5_000;
const HOURS = 24;
const STEP = CANDLE_STEPS["1h"];

/** Where a ticker is in the list: not listed, its volume below 2^62 turned round, and its key. */
type Place = readonly [unlisted: number, rank: string, asset: string];

export const tickerPage = pageFields(
  z
    .tuple([z.int().min(0).max(1), z.string().regex(/^\d{19}$/), z.string().max(100)])
    .transform((place): Place => place),
);

type TickerQuery = PageQuery<Place> & { readonly venue?: Venue | undefined };

/** The tickers of all venues. */
export class TickerList {
  readonly #known = new Remembered<readonly TickerRow[]>(FRESH_MS);

  async page(
    env: { readonly DB: D1Database },
    settings: PricedFrom,
    { venue, ...page }: TickerQuery,
  ) {
    const rows = await this.rows(env, settings);
    const after = page.last_cursor?.position;
    const found = rows
      .filter((row) => venue === undefined || row.asset.startsWith(`${venue}:`))
      .filter((row) => after === undefined || isAfter(placeOf(row), after))
      .slice(0, fetchCount(page));
    return pageOf(page, found, tickerView, placeOf);
  }

  /** The same array until the tickers are read again. */
  rows(env: { readonly DB: D1Database }, settings: PricedFrom): Promise<readonly TickerRow[]> {
    return this.#known.get(env, () => readTickers({ db: env.DB, settings }));
  }
}

function placeOf({ asset, listed, usdc_amount: volume }: TickerRow): Place {
  return [1 - listed, String(MAX_NATIVE_UNITS - BigInt(volume)).padStart(19, "0"), asset];
}

/** Nobody can make room before a listed market. */
function isAfter(one: Place, other: Place): boolean {
  const index = one.findIndex((part, at) => part !== other[at]);
  return index >= 0 && (one[index] ?? "") > (other[index] ?? "");
}

export type TickerRow = {
  readonly asset: string;
  /** Of each hour with a trade: when it starts in minutes since 1970, its first and last price. */
  readonly hours: string;
  readonly amount: string;
  readonly usdc_amount: string;
  readonly trades: number;
  readonly listed: 0 | 1;
  readonly last_at: number;
  /** When the oldest of the hours starts. */
  readonly first_hour: number;
};

async function readTickers({ db, settings }: PricedDatabase) {
  const firstHour = sql`(${NOW} / 3600000 - ${literal(HOURS - 1)}) * 60`;
  const hours = mergeCandles(sql`SELECT *, x'' AS tie FROM candles INDEXED BY candles_start
      WHERE step = ${literal(STEP)} AND step < 1440 AND start >= ${firstHour}
    UNION ALL ${tradesAsCandles(settings, [STEP], sql`${NOT_IN_CANDLES}`)}`);
  return all<TickerRow>(
    db,
    sql`SELECT asset, json_group_array(json_array(start, open, close)) AS hours,
        CAST(${boundedSum("amount")} AS TEXT) AS amount,
        CAST(${boundedSum("usdc_amount")} AS TEXT) AS usdc_amount,
        EXISTS (SELECT 1 FROM markets k WHERE k.asset = h.asset) AS listed,
        sum(trades) AS trades, max(last_at) AS last_at, ${firstHour} AS first_hour
      FROM (${hours}) h WHERE start >= ${firstHour} GROUP BY asset
      ORDER BY listed DESC, ${boundedSum("usdc_amount")} DESC, asset LIMIT ${MAX_TICKERS}`,
  );
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
