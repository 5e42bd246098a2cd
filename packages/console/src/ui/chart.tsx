import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

const PERCENT: uPlot.Scales = {
  y: { range: (_, low, high) => [Math.max(0, low - 2), Math.min(100, high + 2)] },
};
const FONT = "11px Inter, system-ui, sans-serif";
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY_SECS = 86_400;

/** Days, or times within two of them. No text is repeated. */
const instants: uPlot.Axis.Values = (_, ticks) => {
  const isLong = (ticks.at(-1) ?? 0) - (ticks[0] ?? 0) > 2 * DAY_SECS;
  const texts = ticks.map((tick) => (isLong ? DAY : TIME).format(tick * 1_000));
  return texts.map((text, index) => (text === texts[index - 1] ? "" : text));
};
const stepped: uPlot.Series.PathBuilder = (...series) =>
  uPlot.paths.stepped?.({ align: 1 })(...series) ?? null;

type ChartProps<Row> = {
  /** Oldest first. Undefined until they are read. */
  rows: readonly Row[] | undefined;
  /** Only drawn: a pixel is coarser than what a float loses. */
  point: (row: Row) => { at: string; value: number };
  /** USDC change in steps. */
  unit: "%" | "USDC";
  height: number;
};

/** A line over time, as wide as its place. What it shows must be said in words beside it. */
export function Chart<Row>({ rows, point, unit, height }: ChartProps<Row>) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const target = place.current;
    if (target === null || rows === undefined || rows.length < 2) return undefined;
    const percent = unit === "%";
    const points = rows.map((row) => point(row));
    const grid = { stroke: colorOf(target, "--line"), width: 1 };
    const axis = { stroke: colorOf(target, "--soft"), grid, ticks: { show: false }, font: FONT };
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
          {
            stroke: colorOf(target, "--accent"),
            fill: colorOf(target, "--accent-soft"),
            width: 2,
            points: { show: false },
            ...(percent ? {} : { paths: stepped }),
          },
        ],
        axes: [
          { ...axis, grid: { show: false }, size: 32, space: 80, values: instants },
          { ...axis, side: 1, size: percent ? 56 : 80, values },
        ],
        padding: [8, 0, 0, 0],
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
  // The height is there before the line: what moves between press and release takes no click.
  return <div ref={place} className="chart" style={{ minHeight: height }} aria-hidden="true" />;
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
