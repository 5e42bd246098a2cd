/** An outcome's price over time, as a chance. */
import type { Candle, MarketAsset } from "@rfq-custody/client";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { useClient } from "../session/session.tsx";
import { Choice } from "../ui/form.tsx";
import { Chart } from "../ui/chart.tsx";
import { formatChance } from "../units.ts";

const NONE: readonly Candle[] = [];
const pointOf = ({ start: at, close }: Candle) => ({ at, value: close / 10_000 });
const DAY_MS = 86_400_000;
const RANGES = {
  "1 d": { interval: "1m", ms: DAY_MS },
  "1 w": { interval: "1h", ms: 7 * DAY_MS },
  "3 m": { interval: "1h", ms: 90 * DAY_MS },
  All: { interval: "1d", ms: null },
} as const;
type Range = keyof typeof RANGES;
const NAMES = { "1 d": "1 d", "1 w": "1 w", "3 m": "3 m", All: "All" } as const;
/** One page of candles. A longer range shows the newest ones. */
const POINTS = 1_000;
const REFRESH_MS = 10_000;

/** With what is known of the price now as `children`. */
export function PriceChart({ asset, children }: { asset: MarketAsset; children: ReactNode }) {
  const client = useClient();
  const [range, setRange] = useState<Range>("1 w");
  const { data: candles } = useQuery({
    queryKey: ["candles", asset.venue_id, asset.asset_id, range],
    queryFn: async () => {
      const { interval, ms } = RANGES[range];
      const from = ms === null ? {} : { from: new Date(Date.now() - ms) };
      const page = await client.rfq.candles({ ...asset, interval, ...from, limit: POINTS }).page();
      return page.items.toReversed();
    },
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  return (
    <figure>
      <div className="between">
        {children}
        <Choice label="Range" options={NAMES} value={range} onChange={setRange} />
      </div>
      <figcaption className="sub">{summaryOf(candles)}</figcaption>
      <Chart rows={candles ?? NONE} point={pointOf} unit="%" height={280} />
    </figure>
  );
}

function summaryOf(candles: readonly Candle[] | undefined): string {
  if (candles === undefined) return "Loading prices…";
  const [first, last] = [candles[0], candles.at(-1)];
  if (first === undefined || last === undefined) return "No trade in this time.";
  const low = Math.min(...candles.map((candle) => candle.low));
  const high = Math.max(...candles.map((candle) => candle.high));
  return (
    `From ${formatChance(first.open)} to ${formatChance(last.close)}, ` +
    `low ${formatChance(low)}, high ${formatChance(high)}`
  );
}
