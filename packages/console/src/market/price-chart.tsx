/** An outcome's price over time, beside those of the other outcomes of its question. */
import type { Candle, Client, Market, MarketAsset } from "@rfq-custody/client";
import { keepPreviousData } from "@tanstack/react-query";
import { type ReactNode, useMemo, useState } from "react";
import { useDoor, useRead } from "../session/session.tsx";
import { Chart } from "../ui/chart.tsx";
import type { Line, Point } from "../ui/chart-scene.ts";
import { Choice } from "../ui/choices.tsx";
import { formatChance, roughPrice } from "../units.ts";
import { usePosition } from "./position.tsx";

const HOUR_MS = 3_600_000;
/** The finest first. */
const RANGES = {
  "1 h": { interval: "1m", ms: HOUR_MS },
  "1 d": { interval: "1m", ms: 24 * HOUR_MS },
  "1 w": { interval: "1h", ms: 7 * 24 * HOUR_MS },
  "3 m": { interval: "1h", ms: 90 * 24 * HOUR_MS },
  All: { interval: "1d", ms: null },
} as const;
type Range = keyof typeof RANGES;
const NAMES = { "1 h": "1 h", "1 d": "1 d", "1 w": "1 w", "3 m": "3 m", All: "All" } as const;
/** From a day on, so that a quiet market begins with more than its last trades. */
const BY_DEFAULT: readonly Range[] = ["1 d", "1 w", "3 m", "All"];
/** One page of candles. A longer range shows the newest ones. */
const POINTS = 1_000;
const REFRESH_MS = 10_000;
/** Other lines than these would hide each other. */
const OTHERS = 4;

async function readCandles(client: Client, asset: MarketAsset, range: Range) {
  const { venue_id, asset_id } = asset;
  const { interval, ms } = RANGES[range];
  const from = ms === null ? {} : { from: new Date(Date.now() - ms) };
  const page = client.rfq.candles({ venue_id, asset_id, interval, ...from, limit: POINTS }).page();
  return (await page).items.toReversed();
}

type PriceChartProps = {
  asset: MarketAsset;
  outcome: string;
  /** All outcomes of the question. */
  markets: readonly Market[];
  /** What is known of the price now. */
  children: ReactNode;
};

export function PriceChart({ asset, outcome, markets, children }: PriceChartProps) {
  const [chosen, choose] = useState<Range | null>(null);
  const read = useRead(
    ["candles", asset.venue_id, asset.asset_id, chosen],
    async (client) => {
      for (const range of chosen === null ? BY_DEFAULT : [chosen]) {
        const candles = await readCandles(client, asset, range);
        if (candles.length > 1 || chosen !== null || range === "All") return { range, candles };
      }
      throw new Error("The last range is returned in any case.");
    },
    { refetchEvery: REFRESH_MS, placeholderData: keepPreviousData },
  );
  const range = chosen ?? read?.range ?? "1 d";
  const isPair = markets.length === 2;
  const rest = isPair ? [] : markets.filter((one) => one.asset_id !== asset.asset_id);
  const others = useOthers(rest.slice(0, OTHERS), range);
  const lines = useMemo(
    () => [
      { name: markets.length > 1 ? outcome : "", points: pointsOf(read?.candles ?? []) },
      ...others,
    ],
    [read, others, outcome, markets.length],
  );
  return (
    <figure>
      <div className="between">
        {children}
        <Choice label="Range" options={NAMES} value={range} onChange={choose} />
      </div>
      <figcaption className="sub">{summaryOf(lines[0]?.points, read === undefined)}</figcaption>
      {useDoor().signed === null ? (
        <Chart lines={lines} unit="%" height={280} />
      ) : (
        <WithPaid asset={asset} lines={lines} />
      )}
    </figure>
  );
}

/** With the average price that the user paid. */
function WithPaid({ asset, lines }: { asset: MarketAsset; lines: readonly Line[] }) {
  const paid = usePosition(asset)?.average_price ?? null;
  const mark = useMemo(
    () => (paid === null ? null : { text: `You paid ${roughPrice(paid)}`, value: paid / 10_000 }),
    [paid],
  );
  return <Chart lines={lines} unit="%" height={280} mark={mark} />;
}

const NONE: readonly Line[] = [];

function useOthers(markets: readonly Market[], range: Range): readonly Line[] {
  const ids = markets.map(({ asset_id }) => asset_id);
  const read = useRead(
    ["candles", "others", ...ids, range],
    async (client) =>
      Promise.all(
        markets.map(async (market) => ({
          name: market.outcome,
          points: pointsOf(await readCandles(client, market, range)),
        })),
      ),
    { enabled: markets.length > 0, refetchEvery: REFRESH_MS, optional: true },
  );
  return read ?? NONE;
}

/** Ends of candles, after the price at which the first one began. */
function pointsOf(candles: readonly Candle[]): Point[] {
  const [first] = candles;
  const ends = candles.map(({ start: at, close, usdc_amount }) => ({
    at,
    value: close / 10_000,
    volume: Number(usdc_amount),
  }));
  if (first === undefined || first.open === first.close) return ends;
  const before = new Date(Date.parse(first.start) - 1_000).toISOString();
  return [{ at: before, value: first.open / 10_000 }, ...ends];
}

/** Of what is drawn, so that the words and the line agree. */
function summaryOf(points: readonly Point[] = [], isLoading: boolean): string {
  if (isLoading) return "Loading prices…";
  const values = points.map(({ value }) => value * 10_000);
  const [first, last] = [values[0], values.at(-1)];
  if (first === undefined || last === undefined) return "No trade in this time.";
  return (
    `From ${formatChance(first)} to ${formatChance(last)}, ` +
    `low ${formatChance(Math.min(...values))}, high ${formatChance(Math.max(...values))}`
  );
}
