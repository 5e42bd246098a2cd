/** The page's clock, and the pace at which it shows what events change. */

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
  // The second that was kept is that of the last tick, which may be long ago.
  if (timer === undefined) second = Date.now();
  timer ??= setInterval(() => {
    ticks += 1;
    if (ticks % TICKS === 0) second = Date.now();
    // A copy, because one that begins again at this tick waits for the next.
    for (const listener of new Set(listeners)) listener();
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
