/**
 * The figures of a bench, and the table that prints each with its peer, their ratio and its target.
 */

import type { BenchStack, Network, StackOptions } from "./stack.ts";

export type Figure = {
  readonly what: string;
  readonly ours: number;
  readonly unit: string;
  /** Measured on the same machine in the same run, without us or with the measured part off. */
  readonly peer?: { readonly name: string; readonly value: number };
  /**
   * Bounds of ours / peer, or of ours without a peer. A missed target is printed and fails nothing.
   */
  readonly target?: { readonly atLeast: number } | { readonly atMost: number };
  readonly note?: string;
};

export type BenchOptions = {
  /** The latency of the bench `network`. */
  readonly network: Network;
  /** Short runs, which show only whether the bench works. */
  readonly quick: boolean;
  /** The bench `abuse` runs its control and the attacks whose name contains this. */
  readonly only: string | undefined;
  /** Of the reader of the bench `archive`. */
  readonly entries: number | undefined;
  readonly say: (line: string) => void;
  /** Starts a stack that is stopped when the bench ends. */
  readonly start: (options?: StackOptions) => Promise<BenchStack>;
  /** Registers what else is stopped then. */
  readonly onStop: (stop: () => Promise<void>) => void;
};

export type Bench = (options: BenchOptions) => Promise<Figure[]>;

export function median(values: readonly number[]): number {
  const sorted = Float64Array.from(values).toSorted();
  const [low, high] = [
    sorted[Math.floor((sorted.length - 1) / 2)],
    sorted[Math.ceil((sorted.length - 1) / 2)],
  ];
  return low === undefined || high === undefined ? Number.NaN : (low + high) / 2;
}

/** Nearest rank. NaN if there are no values. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = Float64Array.from(values).toSorted();
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

function ratioOf(figure: Figure): number | undefined {
  return figure.peer === undefined || figure.peer.value === 0
    ? undefined
    : figure.ours / figure.peer.value;
}

export function verdict(figure: Figure): "" | "holds" | "MISSES" {
  if (figure.target === undefined) return "";
  const value = figure.peer === undefined ? figure.ours : (ratioOf(figure) ?? Number.NaN);
  const holds =
    "atLeast" in figure.target ? value >= figure.target.atLeast : value <= figure.target.atMost;
  return holds ? "holds" : "MISSES";
}

export function printFigures(title: string, figures: readonly Figure[]): void {
  const rows = figures.map((figure) => {
    const ratio = ratioOf(figure);
    return [
      figure.what,
      `${number(figure.ours)} ${figure.unit}`,
      figure.peer === undefined ? "" : `${number(figure.peer.value)} ${figure.unit}`,
      figure.peer?.name ?? "",
      ratio === undefined ? "" : `${ratio.toFixed(2)}×`,
      targetText(figure),
      verdict(figure),
      figure.note ?? "",
    ];
  });
  const heads = ["", "ours", "peer", "", "ratio", "target", "", ""];
  const right = new Set([1, 2, 4, 5]);
  const widths = heads.map((head, column) =>
    Math.max(head.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) =>
        right.has(column) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
      )
      .join("  ")
      .trimEnd();
  console.log(`\n${title}\n${line(heads)}`);
  for (const row of rows) console.log(line(row));
}

function targetText({ target, peer }: Figure): string {
  if (target === undefined) return "";
  const unit = peer === undefined ? "" : "×";
  return "atLeast" in target ? `≥ ${target.atLeast}${unit}` : `≤ ${target.atMost}${unit}`;
}

export function number(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (Number.isInteger(value) || Math.abs(value) >= 100)
    return Math.round(value).toLocaleString("en").replaceAll(",", " ");
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}
