import { useSyncExternalStore } from "react";

const TICK_MS = 250;
/** Ticks of a second, of which the first one moves countdowns. */
const TICKS = 4;
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let ticks = 0;
let second = Date.now();

/** One timer for all countdowns of the page. */
export function everyQuarterSecond(changed: () => void): () => void {
  listeners.add(changed);
  timer ??= setInterval(() => {
    ticks += 1;
    if (ticks % TICKS === 0) second = Date.now();
    for (const listener of listeners) listener();
  }, TICK_MS);
  return () => {
    listeners.delete(changed);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** What events change is shown this often in a row before it waits for the next second. */
const BURST = 4;

/**
 * Runs `apply` at the next tick after `due`. While events go on for longer than a burst, that is
 * once a second, together with the countdowns, so that a flood costs few frames.
 */
export function paced(apply: () => void) {
  // Ticks stop while nobody listens, time does not.
  let [credit, at] = [BURST, performance.now()];
  let stop: (() => void) | undefined;
  const cancel = () => {
    stop?.();
    stop = undefined;
  };
  const tick = () => {
    const now = performance.now();
    credit = Math.min(BURST, credit + (now - at) / (TICKS * TICK_MS));
    at = now;
    if (credit < 1 && ticks % TICKS !== 0) return;
    credit = Math.max(0, credit - 1);
    cancel();
    apply();
  };
  return { due: () => void (stop ??= everyQuarterSecond(tick)), cancel };
}

/** Milliseconds since 1970, by the service's clock. */
export function clockNow(): number {
  return Date.now() + clock.offsetMs;
}

/** As `clockNow`, renewed once a second, for all that is shown at the same tick. */
export function secondNow(): number {
  if (timer === undefined) second = Date.now();
  return second + clock.offsetMs;
}

/** The service's clock minus this one, as the last hello message said. */
export const clock = { offsetMs: 0 };

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
