import type { Ticker } from "@rfq-custody/client";
import { sparklineOf } from "./market-cards.ts";

/** Room for the point at the end of the line. */
const EDGE = 4;

type SparklineProps = { ticker: Ticker | undefined; width: number; height: number };

/** The last day of a price. The dotted line is where it began. */
export function Sparkline({ ticker, width, height }: SparklineProps) {
  const line = ticker === undefined ? null : sparklineOf(ticker, { width, height });
  if (ticker === undefined || line === null) return <span />;
  return (
    <svg
      className={`spark ${ticker.change < 0 ? "down" : "up"}`}
      viewBox={`${-EDGE} ${-EDGE} ${width + 2 * EDGE} ${height + 2 * EDGE}`}
      width={width + 2 * EDGE}
      height={height + 2 * EDGE}
      aria-hidden="true"
    >
      <path className="base" d={`M0 ${line.startY}H${width}`} />
      <path d={line.path} />
      <circle cx={width} cy={line.endY} r="2.5" />
    </svg>
  );
}
