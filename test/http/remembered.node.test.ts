import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Remembered } from "../../src/http/remembered.ts";

beforeEach(() => void vi.useFakeTimers({ now: 1_800_000_000_000 }));
afterEach(() => void vi.useRealTimers());

it("lets one request read again while others use the earlier value", async () => {
  const state = new Remembered<number>();
  const env = {};
  expect(await state.get(env, async () => 1)).toBe(1);
  vi.advanceTimersByTime(1_000);
  let finish = (_value: number) => {};
  const reading = state.get(env, () => new Promise((resolve) => (finish = resolve)));
  const others = await Promise.all([1, 2, 3].map(() => state.get(env, async () => 3)));
  expect(others).toEqual([1, 1, 1]);
  finish(2);
  expect(await reading).toBe(2);
  expect(await state.get(env, async () => 3)).toBe(2);
});

it("does not serve a value older than three seconds, although a read hangs", async () => {
  const state = new Remembered<number>();
  const env = {};
  await state.get(env, async () => 1);
  vi.advanceTimersByTime(2_500);
  void state.get(env, () => new Promise(() => {}));
  expect(await state.get(env, async () => 2)).toBe(1);
  vi.advanceTimersByTime(500);
  expect(await state.get(env, async () => 2)).toBe(2);
});

it("passes a failed read on and tries again", async () => {
  const state = new Remembered<number>();
  const env = {};
  await expect(state.get(env, () => Promise.reject(new Error("down")))).rejects.toThrow("down");
  expect(await state.get(env, async () => 1)).toBe(1);
});
