/**
 * Turns for hashing passwords. scrypt blocks the isolate's only thread, so one hash runs at a time,
 * in rounds of about 10 ms (password.ts). The pauses between them leave five sixths of the thread
 * to other requests, however many logins wait.
 *
 * Callers wait in lanes that are served in turn, so a flood in one lane costs another one every
 * second turn at most. Within a lane, networks are served in turn. A newcomer for whom there is no
 * room takes the place of the newest waiter of the network that has the most, so nobody keeps
 * others out with many accounts.
 */
import { Problem } from "../platform/problem.ts";

/**
 * `session`: callers who also have a valid session. `known`: logins from a network that has logged
 * this user in before. `operator`: orders of operators. `other`: everyone else.
 */
type Lane = "session" | "known" | "operator" | "other";

export type HashCaller = {
  readonly lane: Lane;
  /** The IPv4 address or IPv6 /48, or what stands for it. */
  readonly network: string;
  /** A caller in the network. If omitted, the network is one caller. */
  readonly who?: string;
};

/** A turn whose request was cancelled never ends, so it expires. Calls of D1 may take as long. */
const TURN_MS = 2_000;
/** A turn whose request was cancelled between two rounds expires sooner. */
const ROUND_MS = 500;
let pauseMs = 60;
/** Each poll wakes the thread. */
const POLL_MS = 50;
/** When a turn was free for this time, the next in order seems cancelled, and any waiter may go. */
const GRACE_MS = 100;
/** A waiter that has not polled for this time was cancelled. Hashes may delay a poll. */
const ALIVE_MS = 3_000;
const MAX_WAITING: Readonly<Record<Lane, number>> = {
  session: 32,
  known: 32,
  operator: 8,
  other: 8,
};
export const MAX_WAITING_PER_CALLER = 2;
/** One network with many accounts must not fill a lane. */
export const MAX_WAITING_PER_NETWORK = 8;
/** Lanes and networks whose latest turn is remembered. A forgotten one is served early once. */
const MAX_SERVED = 1_000;

export type Waiter = HashCaller & {
  seenAt: number;
  /** Whether a newcomer has taken the place. */
  evicted: boolean;
};

/** For tests, which log in often and have no other requests to serve. */
export function setHashPause(ms: number): void {
  pauseMs = ms;
}

/** The order of turns, without timers. */
export class HashTurns {
  /** In the order of arrival. */
  readonly #waiting = new Set<Waiter>();
  /** The latest turn of lanes, and of networks in them, the oldest first. */
  readonly #served = new Map<string, number>();
  #turns = 0;
  #held = false;
  #freeAt = 0;

  /** Undefined if the lane is full. May evict another waiter. */
  join(caller: HashCaller, now: number): Waiter | undefined {
    const waiter = { ...caller, seenAt: now, evicted: false };
    const loser = this.#loserTo(waiter, now);
    if (loser === waiter) return undefined;
    if (loser !== undefined) {
      this.#waiting.delete(loser);
      loser.evicted = true;
    }
    this.#waiting.add(waiter);
    return waiter;
  }

  hasRoom(caller: HashCaller, now: number): boolean {
    const waiter = { ...caller, seenAt: now, evicted: false };
    return this.#loserTo(waiter, now) !== waiter;
  }

  /** Who has no place if the newcomer joins. Undefined if all fit. */
  #loserTo(newcomer: Waiter, now: number): Waiter | undefined {
    for (const waiter of this.#waiting)
      if (now - waiter.seenAt > ALIVE_MS) this.#waiting.delete(waiter);
    const newestFirst = [...this.#waiting, newcomer].toReversed();
    const lane = newestFirst.filter((waiter) => waiter.lane === newcomer.lane);
    const network = lane.filter((waiter) => networkOf(waiter) === networkOf(newcomer));
    const own = network.filter(({ who }) => who === newcomer.who);
    if (own.length > MAX_WAITING_PER_CALLER) return newcomer;
    if (network.length > MAX_WAITING_PER_NETWORK) return largest(network, callerOf)[0];
    if (lane.length <= MAX_WAITING[newcomer.lane]) return undefined;
    // Of networks with equally many places, the one that was served last loses.
    const byTurn = lane.toSorted((a, b) => this.#turnOf(networkOf(b)) - this.#turnOf(networkOf(a)));
    return largest(largest(byTurn, networkOf), callerOf)[0];
  }

  /** Whether the waiter's turn has come. It then holds the turn until `end`. */
  poll(waiter: Waiter, now: number): boolean {
    waiter.seenAt = now;
    if (now < this.#freeAt) return false;
    if (now - this.#freeAt < GRACE_MS && waiter !== this.#next()) return false;
    this.#waiting.delete(waiter);
    this.#remember(waiter.lane);
    this.#remember(networkOf(waiter));
    this.#held = true;
    this.#freeAt = now + TURN_MS;
    return true;
  }

  /** A round of the hash has ended, and the next one begins after a pause. */
  extend(now: number): void {
    if (this.#held) this.#freeAt = now + ROUND_MS;
  }

  end(now: number): void {
    this.#held = false;
    this.#freeAt = now + pauseMs;
  }

  /** The first to arrive of the lane, and in it of the network, that has waited longest. */
  #next(): Waiter | undefined {
    // The sort keeps the order of arrival.
    return [...this.#waiting].toSorted(
      (a, b) =>
        this.#turnOf(a.lane) - this.#turnOf(b.lane) ||
        this.#turnOf(networkOf(a)) - this.#turnOf(networkOf(b)),
    )[0];
  }

  /** The number of the latest turn of a lane or a network. 0: it had none. */
  #turnOf(name: string): number {
    return this.#served.get(name) ?? 0;
  }

  #remember(name: string): void {
    this.#served.delete(name);
    this.#served.set(name, ++this.#turns);
    const [oldest] = this.#served.keys();
    if (oldest !== undefined && this.#served.size > MAX_SERVED) this.#served.delete(oldest);
  }
}

/** The network in its lane, because a turn in one lane must not cost the next one in another. */
function networkOf({ lane, network }: HashCaller): string {
  return `${lane} ${network}`;
}

function callerOf({ who = "" }: HashCaller): string {
  return who;
}

/** The group with the most waiters. Of equal ones, the group of the first waiter. */
function largest(waiters: readonly Waiter[], groupOf: (waiter: Waiter) => string): Waiter[] {
  const groups = [...Map.groupBy(waiters, groupOf).values()];
  return groups.toSorted((a, b) => b.length - a.length)[0] ?? [];
}

const turns = new HashTurns();
/**
 * Runs `work`, which hashes a password, in a turn of its own. Throws `login_throttled` if too many
 * are waiting. Each waiter polls with its own timer, because a promise of another request never
 * settles if that request is cancelled.
 */
export async function inHashTurn<T>(caller: HashCaller, work: () => Promise<T>): Promise<T> {
  const waiter = turns.join(caller, Date.now());
  if (waiter === undefined) throw tooBusy();
  while (!turns.poll(waiter, Date.now())) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    if (waiter.evicted) throw tooBusy();
  }
  try {
    return await work();
  } finally {
    turns.end(Date.now());
  }
}

/** Whether the caller would get a place now. */
export function hasRoom(caller: HashCaller): boolean {
  return turns.hasRoom(caller, Date.now());
}

/** Between two rounds of the hash whose turn it is. */
export async function pauseHash(): Promise<void> {
  turns.extend(Date.now());
  await new Promise((resolve) => setTimeout(resolve, pauseMs));
}

export function tooBusy(): Problem {
  return new Problem({
    code: "login_throttled",
    detail: "Too many logins are in progress. Try again in 5 seconds.",
    retryAfterSecs: 5,
  });
}
