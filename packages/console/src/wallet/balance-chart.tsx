import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useClient } from "../session/session.tsx";
import { colorOf } from "../ui/token.ts";
import { formatUnits } from "../units.ts";

/** The newest changes of the available USDC. */
const POINTS = 500;
const HEIGHT = 180;

const steps: uPlot.Series.PathBuilder = (...series) =>
  uPlot.paths.stepped?.({ align: 1 })(...series) ?? null;

export function BalanceChart() {
  const client = useClient();
  const place = useRef<HTMLDivElement>(null);
  const { data: entries } = useQuery({
    queryKey: ["ledger", "chart"],
    queryFn: async () => {
      const filter = { account: "available", usdc: true, limit: POINTS } as const;
      return (await client.custody.ledger(filter).page()).items.toReversed();
    },
  });
  useEffect(() => {
    const target = place.current;
    if (target === null || entries === undefined || entries.length < 2) return undefined;
    const ink = colorOf(target, "--ink");
    const line = colorOf(target, "--line");
    const axis = { stroke: ink, grid: { stroke: line }, ticks: { stroke: line } };
    const chart = new uPlot(
      {
        width: target.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        series: [{}, { stroke: colorOf(target, "--accent"), paths: steps }],
        axes: [axis, { ...axis, size: 80 }],
      },
      [
        entries.map(({ created_at }) => Date.parse(created_at) / 1_000),
        // Only drawn: a pixel is coarser than what a float loses.
        entries.map(({ balance_after }) => Number(balance_after) / 1e6),
      ],
      target,
    );
    const resized = new ResizeObserver(() =>
      chart.setSize({ width: target.clientWidth, height: HEIGHT }),
    );
    resized.observe(target);
    return () => {
      resized.disconnect();
      chart.destroy();
    };
  }, [entries]);
  const last = entries?.at(-1);
  return (
    <figure>
      <figcaption>
        Available USDC{last === undefined ? "" : `, now ${formatUnits(last.balance_after)}`}
      </figcaption>
      <div ref={place} className="chart" aria-hidden="true" />
    </figure>
  );
}
