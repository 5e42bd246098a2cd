import { useSyncExternalStore } from "react";
import { formatTime, relative } from "../units.ts";
import { clockNow, everyQuarterSecond, secondNow } from "./clock.ts";

export function Countdown({ until }: { until: string }) {
  // Renders again only when the number changes.
  const left = useSyncExternalStore(everyQuarterSecond, () => secondsTo(until));
  if (left === 0) return <span className="muted">over</span>;
  const text = left >= 60 ? `${Math.floor(left / 60)} min ${left % 60} s` : `${left} s`;
  return <span className={left <= 5 ? "soon" : ""}>{text}</span>;
}

/** Zero at its end, and at least one before. */
function secondsTo(until: string): number {
  const end = Date.parse(until);
  return end <= clockNow() ? 0 : Math.max(1, Math.floor((end - secondNow()) / 1_000));
}

/** A ring that drains for as long as the quote lives, amber in its last ten seconds. */
export function Ring({ from, until }: { from: string; until: string }) {
  const secs = useSyncExternalStore(everyQuarterSecond, () => secondsTo(until));
  const life = Date.parse(until) - Date.parse(from);
  const share = Math.min(1, (secs * 1_000) / Math.max(1_000, life));
  return (
    <svg
      className={secs <= 10 ? "ring low" : "ring"}
      viewBox="0 0 48 48"
      width="48"
      height="48"
      role="img"
      aria-label={`${secs} seconds left`}
    >
      <circle cx="24" cy="24" r="21" />
      <circle
        className="left"
        cx="24"
        cy="24"
        r="21"
        pathLength="100"
        strokeDasharray={`${(share * 100).toFixed(1)} 100`}
        transform="rotate(-90 24 24)"
      />
      <text x="24" y="29" textAnchor="middle">
        {secs}
      </text>
    </svg>
  );
}

/** How long ago or in how long. The exact instant is in the title and in the accessible text. */
export function When({ at }: { at: string }) {
  // Renders again only when the text changes.
  const text = useSyncExternalStore(everyQuarterSecond, () => relative(at, secondNow()));
  return (
    <time dateTime={at} title={formatTime(at)}>
      {text}
      <span className="sr">, {formatTime(at)}</span>
    </time>
  );
}

/** As `relative`, without following the clock. */
export function fromNow(at: string): string {
  return relative(at, clockNow());
}
