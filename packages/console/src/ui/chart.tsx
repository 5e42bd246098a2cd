import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

const PERCENT: uPlot.Scales = {
  y: { range: (_, low, high) => [Math.max(0, low - 2), Math.min(100, high + 2)] },
};
const stepped: uPlot.Series.PathBuilder = (...series) =>
  uPlot.paths.stepped?.({ align: 1 })(...series) ?? null;

/** A line over time, as wide as its place. What it shows must be said in words beside it. */
export function Chart<Row>({
  rows,
  point,
  unit,
  height,
}: {
  /** Oldest first. */
  rows: readonly Row[];
  /** Only drawn: a pixel is coarser than what a float loses. */
  point: (row: Row) => { at: string; value: number };
  /** USDC change in steps. */
  unit: "%" | "USDC";
  height: number;
}) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const target = place.current;
    if (target === null || rows.length < 2) return undefined;
    const percent = unit === "%";
    const points = rows.map((row) => point(row));
    const grid = { stroke: colorOf(target, "--line") };
    const axis = { stroke: colorOf(target, "--soft"), grid, ticks: { show: false } };
    const values: uPlot.Axis.Values = (_, ticks) =>
      ticks.map((tick) => (percent ? `${Number(tick.toFixed(1))}%` : tick.toLocaleString()));
    const chart = new uPlot(
      {
        width: target.clientWidth,
        height,
        legend: { show: false },
        scales: percent ? PERCENT : {},
        series: [
          {},
          { stroke: colorOf(target, "--accent"), width: 2, ...(percent ? {} : { paths: stepped }) },
        ],
        axes: [axis, { ...axis, side: 1, size: percent ? 56 : 80, values }],
      },
      [points.map(({ at }) => Date.parse(at) / 1_000), points.map(({ value }) => value)],
      target,
    );
    const resized = new ResizeObserver(() => chart.setSize({ width: target.clientWidth, height }));
    resized.observe(target);
    return () => {
      resized.disconnect();
      chart.destroy();
    };
  }, [rows, point, unit, height]);
  return <div ref={place} className="chart" aria-hidden="true" />;
}

/** The colour of a token of style.css in the present theme. */
function colorOf(target: HTMLElement, token: `--${string}`): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${token})`;
  target.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
