import { expect, it } from "vitest";
import { type HashCaller, HashTurns, type Waiter } from "../../src/auth/hash-turns.ts";

const stranger = (network: string): HashCaller => ({ lane: "other", network });
const owner = (network: string, who?: string): HashCaller => ({
  lane: "known",
  network,
  ...(who === undefined ? {} : { who }),
});

/** Polls every waiter at the instant and returns the one that gets the turn. */
function served(turns: HashTurns, waiters: readonly (Waiter | undefined)[], now: number) {
  return waiters.filter((waiter) => waiter !== undefined && turns.poll(waiter, now));
}

/** Removes the waiters that get the next turns, and returns them in that order. */
function serve(turns: HashTurns, waiters: (Waiter | undefined)[], count: number): Waiter[] {
  const order: Waiter[] = [];
  for (let now = 0; order.length < count; now += 40) {
    for (const waiter of served(turns, waiters.toReversed(), now)) {
      if (waiter !== undefined) order.push(waiter);
      waiters.splice(waiters.indexOf(waiter), 1);
      turns.end(now);
    }
  }
  return order;
}

it("serves the lanes alternately and each lane in order of arrival", () => {
  const turns = new HashTurns();
  const places = [stranger("a"), stranger("b"), stranger("c"), owner("x"), owner("y")];
  const waiters = places.map((caller) => turns.join(caller, 0));
  const order = serve(turns, waiters, 5).map(({ network }) => network);
  expect(order).toEqual(["a", "x", "b", "y", "c"]);
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
  const many = Array.from({ length: 10 }, (_, index) => turns.join(owner("a", `${index}`), 0));
  expect(many.filter((waiter) => waiter !== undefined)).toHaveLength(8);
  const waiters = [...many, turns.join(owner("b"), 0)];
  const order = serve(turns, waiters, 9).map(({ network }) => network);
  expect(order.indexOf("b")).toBe(1);
});

it("limits the places of a lane and of one caller in it", () => {
  const turns = new HashTurns();
  const flood = Array.from({ length: 30 }, (_, index) => turns.join(stranger(`${index}`), 0));
  expect(flood.filter((waiter) => waiter !== undefined)).toHaveLength(8);
  const own = [1, 2, 3].map(() => turns.join(owner("x"), 0));
  expect(own.map((waiter) => waiter !== undefined)).toEqual([true, true, false]);
  expect(turns.join(owner("y"), 0)).toBeDefined();
});

/** 36 accounts on nine networks, each with two logins. */
function joinAll(turns: HashTurns, lane: HashCaller["lane"]): Waiter[] {
  return Array.from({ length: 72 }, (_, index) =>
    turns.join({ lane, network: `flood${index % 9}`, who: `${index % 36}` }, 0),
  ).filter((waiter) => waiter !== undefined);
}

it.each(["known", "session", "operator", "other"] as const)(
  "gives a newcomer the place of the greediest network in the lane %s",
  (lane) => {
    const turns = new HashTurns();
    const waiting = joinAll(turns, lane);
    serve(turns, waiting, 4);
    waiting.push(...joinAll(turns, lane));
    const owners = turns.join({ lane, network: "owner" }, 0);
    expect(owners).toBeDefined();
    expect(waiting.filter((waiter) => waiter.evicted).length).toBeGreaterThan(0);
    for (let round = 0; round < 5; round++) joinAll(turns, lane);
    expect(owners?.evicted).toBe(false);
    // Five of the nine networks had no turn before.
    expect(serve(turns, [...waiting, owners], 6)).toContain(owners);
  },
);

it("keeps no lane waiting for another one that is full", () => {
  const turns = new HashTurns();
  const waiters: (Waiter | undefined)[] = [...joinAll(turns, "known"), ...joinAll(turns, "other")];
  waiters.push(turns.join({ lane: "session", network: "flood0", who: "owner" }, 0));
  waiters.push(turns.join({ lane: "operator", network: "one" }, 0));
  const lanes = serve(turns, waiters, 4).map(({ lane }) => lane);
  expect(lanes.toSorted()).toEqual(["known", "operator", "other", "session"]);
});

it("gives an account with one place that of an account with two in its network", () => {
  const turns = new HashTurns();
  const many = Array.from({ length: 8 }, (_, index) => turns.join(owner("a", `${index % 4}`), 0));
  expect(turns.join(owner("a", "owner"), 0)).toBeDefined();
  expect(many.map((waiter) => waiter?.evicted)).toEqual([...Array(7).fill(false), true]);
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
