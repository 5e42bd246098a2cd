import { useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let now = Date.now();

/** One timer for all countdowns of the page. */
function subscribe(changed: () => void): () => void {
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

/** Milliseconds since 1970, by the service's clock, renewed four times a second. */
function useNow(): number {
  return useSyncExternalStore(subscribe, () => now) + clock.offsetMs;
}

/** The service's clock minus this one, as the last hello message said. */
export const clock = { offsetMs: 0 };

export function Countdown({ until }: { until: string }) {
  const left = Math.max(0, Math.ceil((Date.parse(until) - useNow()) / 1_000));
  if (left === 0) return <span className="muted">over</span>;
  const text = left >= 60 ? `${Math.floor(left / 60)} min ${left % 60} s` : `${left} s`;
  return <span className={left <= 5 ? "soon" : ""}>{text}</span>;
}
