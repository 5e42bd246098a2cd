/** What a user holds of each outcome token, what its trades cost and brought, and its value. */
import { toHex } from "../assets/amount.ts";
import {
  CANDLE_STEPS,
  NOT_IN_CANDLES,
  type PricedDatabase,
  setsPrice,
} from "../archive/candles.ts";
import { assetKey } from "../assets/asset.ts";
import * as z from "zod";
import { fetchCount, type Page, pageFields, type PageQuery, pageOf } from "../http/cursor.ts";
import { tradedAssets, type TradeSums } from "../ledger/trade-sums.ts";
import { all, literal, sql } from "../platform/sql.ts";
import { toWireTimeOrNull } from "../platform/time.ts";
import type { BookFilter } from "./examined-page.ts";
import { assetView } from "./rfq-records.ts";

type PositionRow = TradeSums & {
  /** The result of the asset's market. */
  readonly result: number | null;
  /** The price of the asset's newest match that is in no candle yet, or of its newest candle. */
  readonly last_price: number | null;
  readonly last_at: number | null;
};

/** Positions are sorted by asset key. */
export const positionPage = pageFields(
  z.tuple([z.string().max(100)]).transform(([asset]) => asset),
);

const SCALE = 1_000_000n;

export async function listPositions(
  { db, settings }: PricedDatabase,
  userId: string,
  filter: BookFilter,
  page: PageQuery<string>,
): Promise<Page<ReturnType<typeof positionView>>> {
  const range = { ...rangeOf(filter), after: page.last_cursor?.position ?? "" };
  const rows = await all<PositionRow>(
    db,
    sql`SELECT p.*, k.result, coalesce(n.price, c.close) AS last_price, coalesce(n.at, c.last_at) AS last_at
      FROM (${tradedAssets(userId, { ...range, limit: fetchCount(page) })}) p
      LEFT JOIN matches n ON n.match_id = (SELECT m.match_id FROM matches m
        WHERE substr(m.asset, -16) = substr(p.asset, -16) AND m.asset = p.asset
          AND ${NOT_IN_CANDLES} AND ${setsPrice(settings)}
        ORDER BY m.at DESC, m.match_id DESC LIMIT 1)
      LEFT JOIN candles c ON c.asset = p.asset AND c.step = ${literal(CANDLE_STEPS["1d"])}
        AND c.start = (SELECT max(d.start) FROM candles d
          WHERE d.asset = p.asset AND d.step = ${literal(CANDLE_STEPS["1d"])})
      LEFT JOIN markets k ON k.asset = p.asset
      ORDER BY p.asset`,
  );
  return pageOf(page, rows, positionView, ({ asset }) => [asset]);
}

/** The keys of a filter: at or after `from` and before `before`. */
function rangeOf({ venue, assetId }: BookFilter): { from: string; before: string | null } {
  if (venue === undefined) return { from: "", before: null };
  // The characters after `:` and before any digit.
  if (assetId === undefined) return { from: `${venue}:`, before: `${venue};` };
  const key = assetKey({ venue, assetId });
  return { from: key, before: `${key}!` };
}

/** Native units. Costs are rounded up, so that no rounding shows a profit, and values down. */
export function positionView(row: PositionRow) {
  const [amount, bought, spent] = [BigInt(row.amount), BigInt(row.bought), BigInt(row.spent)];
  const [sold, received] = [BigInt(row.sold), BigInt(row.received)];
  const price = row.result ?? row.last_price;
  return {
    ...assetView(row.asset),
    amount: toHex(amount),
    bought: toHex(bought),
    spent: toHex(spent),
    sold: toHex(sold),
    received: toHex(received),
    average_price: bought === 0n ? null : Number(ceilDiv(spent * SCALE, bought)),
    realized: bought === 0n ? null : (received - ceilDiv(spent * sold, bought)).toString(),
    value: price === null ? null : toHex((amount * BigInt(price)) / SCALE),
    result: row.result,
    last_price: row.last_price,
    last_price_at: toWireTimeOrNull(row.last_at),
  };
}

function ceilDiv(dividend: bigint, divisor: bigint): bigint {
  return (dividend + divisor - 1n) / divisor;
}
