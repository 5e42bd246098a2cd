import { useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let now = Date.now();

/** One timer for all countdowns of the page. */
export function everyQuarterSecond(changed: () => void): () => void {
  listeners.add(changed);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const listener of listeners) listener();
  }, 250);
  return () => {
    listeners.delete(changed);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** Milliseconds since 1970, by the service's clock. */
export function clockNow(): number {
  return Date.now() + clock.offsetMs;
}

/** As `clockNow`, renewed four times a second. */
export function useNow(): number {
  return useSyncExternalStore(everyQuarterSecond, () => now) + clock.offsetMs;
}

/** The service's clock minus this one, as the last hello message said. */
export const clock = { offsetMs: 0 };

export function Countdown({ until }: { until: string }) {
  // Renders again only when the number changes.
  const left = useSyncExternalStore(everyQuarterSecond, () =>
    Math.max(0, Math.ceil((Date.parse(until) - clockNow()) / 1_000)),
  );
  if (left === 0) return <span className="muted">over</span>;
  const text = left >= 60 ? `${Math.floor(left / 60)} min ${left % 60} s` : `${left} s`;
  return <span className={left <= 5 ? "soon" : ""}>{text}</span>;
}

/** A ring that drains for as long as the quote lives, amber in its last ten seconds. */
export function Ring({ from, until }: { from: string; until: string }) {
  const left = Math.max(0, Date.parse(until) - useNow());
  const share = Math.min(1, left / Math.max(1, Date.parse(until) - Date.parse(from)));
  const secs = Math.ceil(left / 1_000);
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
