import { expect, it } from "vitest";
import { FairQueue } from "../../src/rfq/fair-queue.ts";

const item = (userId: string, n: number) => ({ userId, n });
const names = (items: readonly { userId: string; n: number }[]) =>
  items.map(({ userId, n }) => `${userId}${n}`);

function queueOf(...items: readonly (readonly [string, number])[]) {
  const queue = new FairQueue<{ userId: string; n: number }>();
  for (const [userId, n] of items) queue.push(item(userId, n));
  return queue;
}

it("takes one item of each user per round, oldest first", () => {
  const queue = queueOf(["a", 1], ["a", 2], ["a", 3], ["b", 1], ["c", 1], ["c", 2]);
  expect(names(queue.take(5))).toEqual(["a1", "b1", "c1", "a2", "c2"]);
  expect(queue.size).toBe(1);
  expect(names(queue.take(5))).toEqual(["a3"]);
  expect(queue.size).toBe(0);
});

it("continues with the user whose turn is next", () => {
  const queue = queueOf(["a", 1], ["a", 2], ["b", 1], ["b", 2]);
  expect(names(queue.take(1))).toEqual(["a1"]);
  queue.push(item("c", 1));
  expect(names(queue.take(3))).toEqual(["b1", "a2", "c1"]);
});

it("keeps each user's order when items are put back", () => {
  const queue = queueOf(["a", 1], ["a", 2], ["a", 3], ["b", 1]);
  const taken = queue.take(3);
  queue.putBack(taken);
  expect(queue.size).toBe(4);
  const order = names(queue.take(4));
  expect(order.filter((name) => name.startsWith("a"))).toEqual(["a1", "a2", "a3"]);
});

it("stops when what it took weighs enough", () => {
  const queue = queueOf(["a", 4], ["a", 1], ["b", 4], ["c", 1], ["d", 1]);
  expect(names(queue.take(8, ({ n }) => n))).toEqual(["a4", "b4"]);
  expect(names(queue.take(8, ({ n }) => n))).toEqual(["c1", "d1", "a1"]);
});
