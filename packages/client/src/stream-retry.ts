/** When a stream connects again, and when never: pure, so that it can be tested without waiting. */
import { NoAnswer, Problem } from "./problem.ts";

const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 10_000;
/** No `retry-after` is obeyed for longer: asking once an hour harms nobody, and a timer cannot hold every number. */
const LONGEST_REST_SECS = 3_600;
/** RFC 9110: a request that came too slowly; RFC 8470: too early; RFC 6585: too often. */
const PASSING = new Set([408, 425, 429]);

/** Whether a later attempt may fare better. A redirect or another 4xx is about credential or address, which stay as they are. */
export function mayPass(error: unknown): error is Problem | NoAnswer {
  return (
    error instanceof NoAnswer ||
    (error instanceof Problem && (error.status >= 500 || PASSING.has(error.status)))
  );
}

/**
 * Milliseconds before the next attempt: what the service asked for, and a growing random time on top, so that those who were
 * told the same do not come back together.
 */
export function reconnectDelay(
  error: Problem | NoAnswer | null,
  attempt: number,
  random = Math.random,
): number {
  const asked = error instanceof Problem ? (error.retryAfterSecs ?? 0) : 0;
  return (
    Math.min(asked, LONGEST_REST_SECS) * 1_000 +
    random() * Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** attempt)
  );
}
