/** The isolate's clock, and times on the wire. D1's clock decides about records (commit.ts). */

/** Tests that move time replace it, and so can a simulation. */
type Clock = {
  /** Unix milliseconds. */
  readonly now: () => number;
  readonly sleep: (ms: number) => Promise<void>;
};

const SYSTEM_CLOCK: Clock = {
  now: () => Date.now(),
  sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
};

let clock = SYSTEM_CLOCK;

/** What is omitted is the system's. */
export function setClock(replacement: Partial<Clock>): void {
  clock = { ...SYSTEM_CLOCK, ...replacement };
}

/** D1's clock may be this much ahead of the isolate's. Beyond it one of the two is wrong. */
export const MAX_CLOCK_LEAD_MS = 1_000;

/**
 * The Worker that receives a command makes the id of its record, which D1 stamps. The id's time is
 * at most this much later, because guards refuse a Worker whose clock is further ahead.
 */
export const ID_LEAD_MS = 60_000;
/**
 * An id may be this much earlier: the longest RFQ_COMMAND_MAX_WAIT_MS, MAX_CLOCK_LEAD_MS, and a
 * second of rounding.
 */
export const ID_LAG_MS = 62_000;

/** Unix milliseconds, by the isolate's clock. */
export function now(): number {
  return clock.now();
}

export function sleep(ms: number): Promise<void> {
  return clock.sleep(ms);
}

let retryPauses = 1;

/** For tests, whose databases and nodes fail on purpose. A share of the pauses of the service. */
export function setRetryPauses(share: number): void {
  retryPauses = share;
}

/** The pause before something that failed is tried again. */
export function pauseBeforeRetry(ms: number): Promise<void> {
  return sleep(ms * retryPauses);
}

/** Texts of instants. The records of a commit group share most of theirs. */
const wireTimes = new Map<number, string>();
const MAX_WIRE_TIMES = 1_000;

/** A timestamp on the wire: RFC 3339, UTC, with milliseconds. D1 stores Unix milliseconds. */
export function toWireTime(unixMs: number): string {
  const known = wireTimes.get(unixMs);
  if (known !== undefined) return known;
  const text = new Date(unixMs).toISOString();
  if (wireTimes.size >= MAX_WIRE_TIMES) wireTimes.clear();
  wireTimes.set(unixMs, text);
  return text;
}

export function toWireTimeOrNull(unixMs: number | null): string | null {
  return unixMs === null ? null : toWireTime(unixMs);
}

/** How long ago, in its two largest units. */
export function ageText(at: number): string {
  const secs = Math.max(0, Math.floor((now() - at) / 1_000));
  const [days, hours, minutes] = [secs / 86_400, (secs / 3_600) % 24, (secs / 60) % 60].map(
    Math.floor,
  );
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min` : `${secs} s`;
}
