/**
 * Turns for hashing passwords. scrypt blocks the isolate's only thread for about a quarter of a
 * second, so one hash runs at a time, and a pause after each lets other routes run.
 *
 * Callers wait in two lanes that are served alternately, so a flood from strangers costs the known
 * callers every second turn at most. Within a lane, one caller holds at most two places.
 */
import { Problem } from "../platform/problem.ts";

/**
 * `known`: logins from a network that has logged this user in before, and operators. `other`:
 * everyone else.
 */
export type Lane = "known" | "other";

/** `who` shares the places of a caller: the email in the lane `known`, else the network. */
export type HashCaller = { readonly lane: Lane; readonly who: string };

export const OPERATOR: HashCaller = { lane: "known", who: "operator" };

/** A turn whose request was cancelled never ends, so it expires. */
const TURN_MS = 2_000;
const PAUSE_MS = 50;
const POLL_MS = 20;
/** After this time of a free turn, the next in order is presumed cancelled and any waiter may go. */
const GRACE_MS = 100;
/** A waiter that has not polled for this time was cancelled. Hashes may delay a poll. */
const ALIVE_MS = 3_000;
const MAX_WAITING: Readonly<Record<Lane, number>> = { known: 16, other: 8 };
export const MAX_WAITING_PER_CALLER = 2;

export type Waiter = HashCaller & { seenAt: number };

/** The order of turns, without timers. */
export class HashTurns {
  /** In the order of arrival. */
  readonly #waiting = new Set<Waiter>();
  #freeAt = 0;
  #lastLane: Lane = "other";

  /** Undefined if the lane is full, or the caller has its places in it. */
  join(caller: HashCaller, now: number): Waiter | undefined {
    for (const waiter of this.#waiting)
      if (now - waiter.seenAt > ALIVE_MS) this.#waiting.delete(waiter);
    const lane = [...this.#waiting].filter((waiter) => waiter.lane === caller.lane);
    const own = lane.filter((waiter) => waiter.who === caller.who);
    if (lane.length >= MAX_WAITING[caller.lane] || own.length >= MAX_WAITING_PER_CALLER)
      return undefined;
    const waiter = { ...caller, seenAt: now };
    this.#waiting.add(waiter);
    return waiter;
  }

  /** Whether the waiter's turn has come. It then holds the turn until `end`. */
  poll(waiter: Waiter, now: number): boolean {
    waiter.seenAt = now;
    if (now < this.#freeAt) return false;
    if (now - this.#freeAt < GRACE_MS && waiter !== this.#next()) return false;
    this.#waiting.delete(waiter);
    this.#lastLane = waiter.lane;
    this.#freeAt = now + TURN_MS;
    return true;
  }

  end(now: number): void {
    this.#freeAt = now + PAUSE_MS;
  }

  /** The first of the lane that was not served last, or of the other one. */
  #next(): Waiter | undefined {
    const waiting = [...this.#waiting];
    return waiting.find((waiter) => waiter.lane !== this.#lastLane) ?? waiting[0];
  }
}

const turns = new HashTurns();

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

function tooBusy(): Problem {
  return new Problem({
    code: "login_throttled",
    detail: "Too many logins are in progress. Try again in 5 seconds.",
    retryAfterSecs: 5,
  });
}
