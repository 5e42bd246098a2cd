/** An outcome's price over time, as a chance. */
import type { Candle, MarketAsset } from "@rfq-custody/client";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useClient } from "../session/session.tsx";
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
// Safe cast: `Object.keys` returns these keys.
const NAMES = Object.keys(RANGES) as Range[];
/** One page of candles. A longer range shows the newest ones. */
const POINTS = 1_000;
const REFRESH_MS = 10_000;

export function PriceChart({ asset }: { asset: MarketAsset }) {
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
    placeholderData: (before) => before,
  });
  return (
    <figure>
      <fieldset className="seg">
        <legend className="sr">Range</legend>
        {NAMES.map((name) => (
          <label key={name}>
            <input
              type="radio"
              name="range"
              checked={range === name}
              onChange={() => setRange(name)}
            />
            <span>{name}</span>
          </label>
        ))}
      </fieldset>
      <figcaption className="muted">{summaryOf(candles)}</figcaption>
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
