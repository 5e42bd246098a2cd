import { setTimeout as sleep } from "node:timers/promises";

/** Repeats `read` until it returns a value. */
export async function until<T>(
  what: string,
  timeoutMs: number,
  read: () => Promise<T | null>,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const value = await read();
    if (value !== null) return value;
    if (Date.now() > deadline) throw new Error(`waited ${timeoutMs} ms for ${what}`);
    await sleep(100);
  }
}
