import { expect, it } from "vitest";
import { type HashCaller, HashTurns, type Waiter } from "../../src/auth/hash-turns.ts";

const stranger = (who: string): HashCaller => ({ lane: "other", who });
const owner = (who: string): HashCaller => ({ lane: "known", who });

/** Polls every waiter at the instant and returns the one that gets the turn. */
function served(turns: HashTurns, waiters: readonly (Waiter | undefined)[], now: number) {
  return waiters.filter((waiter) => waiter !== undefined && turns.poll(waiter, now));
}

it("serves the lanes alternately and each lane in order of arrival", () => {
  const turns = new HashTurns();
  const places = [stranger("a"), stranger("b"), stranger("c"), owner("x"), owner("y")];
  const waiters = places.map((caller) => turns.join(caller, 0));
  const order: string[] = [];
  for (let now = 0; order.length < 5; now += 40) {
    for (const waiter of served(turns, waiters.toReversed(), now)) {
      order.push(waiter?.who ?? "");
      waiters.splice(waiters.indexOf(waiter), 1);
      turns.end(now);
    }
  }
  expect(order).toEqual(["x", "a", "y", "b", "c"]);
});

it("gives one hash the thread at a time, and a pause after it", () => {
  const turns = new HashTurns();
  const [one, two] = [turns.join(stranger("a"), 0)!, turns.join(stranger("b"), 0)!];
  expect(turns.poll(one, 0)).toBe(true);
  expect(turns.poll(two, 1_999)).toBe(false);
  turns.end(1_999);
  expect(turns.poll(two, 2_058)).toBe(false);
  expect(turns.poll(two, 2_059)).toBe(true);
});

it("keeps the turn from round to round, and ends it soon after the last one", () => {
  const turns = new HashTurns();
  const [one, two] = [turns.join(stranger("a"), 0)!, turns.join(stranger("b"), 0)!];
  expect(turns.poll(one, 0)).toBe(true);
  for (let now = 100; now <= 1_000; now += 100) {
    turns.extend(now);
    expect(turns.poll(two, now + 99)).toBe(false);
  }
  expect(turns.poll(two, 1_499)).toBe(false);
  expect(turns.poll(two, 1_500)).toBe(true);
  // A round of nobody's turn extends nothing.
  turns.end(1_600);
  turns.extend(1_600);
  expect(turns.poll(turns.join(stranger("c"), 1_660)!, 1_660)).toBe(true);
});

it("serves the networks of a lane in turn", () => {
  const turns = new HashTurns();
  const many = Array.from({ length: 10 }, (_, index) =>
    turns.join({ lane: "known", who: `${index}`, network: "a" }, 0),
  );
  expect(many.filter((waiter) => waiter !== undefined)).toHaveLength(8);
  const waiters = [...many, turns.join({ lane: "known", who: "owner", network: "b" }, 0)];
  const order: string[] = [];
  for (let now = 0; order.length < 9; now += 40) {
    for (const waiter of served(turns, waiters, now)) {
      order.push(waiter?.who ?? "");
      waiters.splice(waiters.indexOf(waiter), 1);
      turns.end(now);
    }
  }
  expect(order.indexOf("owner")).toBe(1);
});

it("limits the places of a lane and of one caller in it", () => {
  const turns = new HashTurns();
  const flood = Array.from({ length: 30 }, (_, index) => turns.join(stranger(`${index}`), 0));
  expect(flood.filter((waiter) => waiter !== undefined)).toHaveLength(8);
  const own = [1, 2, 3].map(() => turns.join(owner("x"), 0));
  expect(own.map((waiter) => waiter !== undefined)).toEqual([true, true, false]);
  expect(turns.join(owner("y"), 0)).toBeDefined();
});

it("forgets waiters and turns whose requests were cancelled", () => {
  const turns = new HashTurns();
  const gone = Array.from({ length: 8 }, (_, index) => turns.join(stranger(`${index}`), 0)!);
  expect(turns.poll(gone[0]!, 0)).toBe(true);
  expect(turns.join(stranger("late"), 0)).toBeDefined();
  expect(turns.join(stranger("later"), 100)).toBeUndefined();
  const fresh = turns.join(stranger("fresh"), 3_200)!;
  expect(fresh).toBeDefined();
  expect(turns.poll(fresh, 3_200)).toBe(true);
});

it("lets a live waiter go when the next in order has been cancelled", () => {
  const turns = new HashTurns();
  turns.join(owner("cancelled"), 0);
  const live = turns.join(stranger("a"), 0)!;
  expect(turns.poll(live, 20)).toBe(false);
  expect(turns.poll(live, 100)).toBe(true);
});
