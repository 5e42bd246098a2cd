/** How long a sender waits after a failed attempt. */
const FIRST_MS = 10_000;
const LONGEST_MS = 3_600_000;

/**
 * 10 s after the first failure, doubling to an hour. A quarter less at random, so that the messages
 * of many receivers behind one broken host do not all come back at once.
 */
export function retryDelayMs(failures: number, random: number = Math.random()): number {
  const delay = Math.min(FIRST_MS * 2 ** Math.max(0, failures - 1), LONGEST_MS);
  return Math.round(delay * (1 - random / 4));
}
