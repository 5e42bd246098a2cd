/**
 * Turns for hashing passwords. scrypt blocks the isolate's only thread, so one hash runs at a time,
 * in rounds of about 10 ms (password.ts). The pauses between them leave five sixths of the thread
 * to other requests, however many logins wait.
 *
 * Callers wait in two lanes that are served alternately, so a flood from strangers costs the known
 * callers every second turn at most. Within a lane, networks are served in turn, and one caller
 * holds at most two places.
 */
import { Problem } from "../platform/problem.ts";

/**
 * `known`: logins from a network that has logged this user in before, and operators. `other`:
 * everyone else.
 */
export type Lane = "known" | "other";

/** `who` shares the places of a caller: the email in the lane `known`, else the network. */
export type HashCaller = {
  readonly lane: Lane;
  readonly who: string;
  /** The network of a caller in the lane `known`. If omitted, the caller is one of its own. */
  readonly network?: string;
};

export const OPERATOR: HashCaller = { lane: "known", who: "operator" };

/**
 * A turn whose request was cancelled never ends, so it expires. Its calls of D1 may take as long.
 */
const TURN_MS = 2_000;
/** A turn whose request was cancelled between two rounds expires sooner. */
const ROUND_MS = 500;
const PAUSE_MS = 60;
/** Each poll wakes the thread. */
const POLL_MS = 50;
/**
 * After this time of a free turn, the next in order is presumed cancelled and any waiter may go.
 */
const GRACE_MS = 100;
/** A waiter that has not polled for this time was cancelled. Hashes may delay a poll. */
const ALIVE_MS = 3_000;
const MAX_WAITING: Readonly<Record<Lane, number>> = { known: 32, other: 8 };
export const MAX_WAITING_PER_CALLER = 2;
/** Of a network in the lane `known`. One with many accounts must not fill the lane. */
export const MAX_WAITING_PER_NETWORK = 8;
/** Networks whose latest turn is remembered. A forgotten one is served early once. */
const MAX_SERVED = 1_000;

export type Waiter = HashCaller & { seenAt: number };

/** The order of turns, without timers. */
export class HashTurns {
  /** In the order of arrival. */
  readonly #waiting = new Set<Waiter>();
  /** Networks by their latest turn, the oldest first. */
  readonly #served = new Set<string>();
  #held = false;
  #freeAt = 0;
  #lastLane: Lane = "other";

  /** Undefined if there is no room. */
  join(caller: HashCaller, now: number): Waiter | undefined {
    if (!this.hasRoom(caller, now)) return undefined;
    const waiter = { ...caller, seenAt: now };
    this.#waiting.add(waiter);
    return waiter;
  }

  /** Not if the lane is full, or the caller or its network has its places in it. */
  hasRoom(caller: HashCaller, now: number): boolean {
    for (const waiter of this.#waiting)
      if (now - waiter.seenAt > ALIVE_MS) this.#waiting.delete(waiter);
    const lane = [...this.#waiting].filter((waiter) => waiter.lane === caller.lane);
    const own = lane.filter((waiter) => waiter.who === caller.who);
    const sameNetwork = lane.filter((waiter) => networkOf(waiter) === networkOf(caller));
    return (
      lane.length < MAX_WAITING[caller.lane] &&
      own.length < MAX_WAITING_PER_CALLER &&
      sameNetwork.length < MAX_WAITING_PER_NETWORK
    );
  }

  /** Whether the waiter's turn has come. It then holds the turn until `end`. */
  poll(waiter: Waiter, now: number): boolean {
    waiter.seenAt = now;
    if (now < this.#freeAt) return false;
    if (now - this.#freeAt < GRACE_MS && waiter !== this.#next()) return false;
    this.#waiting.delete(waiter);
    this.#lastLane = waiter.lane;
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
    this.#freeAt = now + PAUSE_MS;
  }

  /**
   * Of the lane that was not served last, or of the other one: the first of the network that has
   * waited longest for a turn.
   */
  #next(): Waiter | undefined {
    const waiting = [...this.#waiting];
    const lane = waiting.filter((waiter) => waiter.lane !== this.#lastLane);
    const served = [...this.#served];
    const turnOf = (waiter: Waiter) => served.indexOf(networkOf(waiter));
    // The sort keeps the order of arrival of equal networks.
    return (lane.length > 0 ? lane : waiting).toSorted((a, b) => turnOf(a) - turnOf(b))[0];
  }

  #remember(network: string): void {
    this.#served.delete(network);
    this.#served.add(network);
    const [oldest] = this.#served;
    if (oldest !== undefined && this.#served.size > MAX_SERVED) this.#served.delete(oldest);
  }
}

function networkOf({ who, network = who }: HashCaller): string {
  return network;
}

const turns = new HashTurns();
let pauseMs = PAUSE_MS;

/** For tests, which log in often and have no other requests to serve. */
export function setHashPause(ms: number): void {
  pauseMs = ms;
}

/**
 * Runs `work`, which hashes a password, in a turn of its own. Throws `login_throttled` if too many
 * are waiting.
 *
 * Each waiter polls with its own timer, because a promise of another request never settles if that
 * request is cancelled.
 */
export async function inHashTurn<T>(caller: HashCaller, work: () => Promise<T>): Promise<T> {
  const waiter = turns.join(caller, Date.now());
  if (waiter === undefined) throw tooBusy();
  while (!turns.poll(waiter, Date.now()))
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
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
