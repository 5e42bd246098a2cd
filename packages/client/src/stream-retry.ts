/** Whether and when a stream reconnects. Pure, so that tests need not wait. */
import { NoAnswer, Problem } from "./problem.ts";

const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 10_000;
/** After so many attempts in a row the delays grow, or a day of them would need 17,000 tickets. */
const MANY_ATTEMPTS = 100;
const DELAY_AFTER_MANY_MS = 60_000;
/**
 * Longest Retry-After that is honoured. Retrying once an hour is harmless, and timers overflow at
 * large delays.
 */
const LONGEST_REST_SECS = 3_600;
/** A connection that ends before has failed. Each needs a ticket, which a day limits in number. */
export const HELD_MS = 30_000;
/** Request Timeout (RFC 9110), Too Early (RFC 8470), Too Many Requests (RFC 6585). */
const TRANSIENT = new Set([408, 425, 429]);

/** Whether a later attempt may succeed. Other 4xx concern the credential, which does not change. */
export function isTransient(error: unknown): error is Problem | NoAnswer {
  return (
    error instanceof NoAnswer ||
    (error instanceof Problem && (error.status >= 500 || TRANSIENT.has(error.status)))
  );
}

/**
 * Milliseconds before the next attempt: the Retry-After of the service, plus a growing random delay
 * so that clients that received the same Retry-After do not reconnect together.
 */
export function reconnectDelay(
  error: Problem | NoAnswer | null,
  attempt: number,
  random = Math.random,
): number {
  // A `NoAnswer` may have the last response as its cause.
  const answer = error?.cause instanceof Problem ? error.cause : error;
  const requestedSecs = answer?.retryAfterSecs ?? 0;
  const longestMs = attempt > MANY_ATTEMPTS ? DELAY_AFTER_MANY_MS : LONGEST_DELAY_MS;
  return (
    Math.min(requestedSecs, LONGEST_REST_SECS) * 1_000 +
    random() * Math.min(longestMs, FIRST_DELAY_MS * 2 ** attempt)
  );
}
