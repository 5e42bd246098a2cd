import { setTimeout as sleep } from "node:timers/promises";

/** Repeats `read` until it returns a value. `what` may be read at the end. */
export async function until<T>(
  what: string | (() => string),
  timeoutMs: number,
  read: () => Promise<T | null>,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const value = await read();
    if (value !== null) return value;
    if (Date.now() > deadline)
      throw new Error(`waited ${timeoutMs} ms for ${typeof what === "string" ? what : what()}`);
    await sleep(100);
  }
}
