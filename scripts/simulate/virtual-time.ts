/**
 * Virtual time: a queue of events, ordered by instant and then by a seeded draw.
 *
 * Everything that waits in the simulated service waits here: calls to D1 and to other objects,
 * sleeps and alarms. Between two events only microtasks run, whose order is deterministic, so one
 * seed gives one history.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { createHash } from "node:crypto";
import { Dice } from "../actors/dice.ts";

/** Something that can be killed between any two awaits: a Worker's call or an object's instance. */
export class Process {
  readonly name: string;
  readonly dice: Dice;
  alive = true;

  constructor(name: string, dice: Dice) {
    this.name = name;
    this.dice = dice;
  }
}

type Event = {
  readonly at: number;
  readonly tie: number;
  readonly order: number;
  readonly run: () => void;
};

/** Notes that a failure report prints. */
const RECENT_NOTES = 300;

export class VirtualTime {
  /** Unix milliseconds. */
  now = Date.UTC(2026, 0, 1);
  readonly #queue: Event[] = [];
  readonly #storage = new AsyncLocalStorage<Process>();
  readonly #root: Process;
  readonly #hash = createHash("sha256");
  readonly #write: ((line: string) => void) | undefined;
  readonly recent: string[] = [];
  #order = 0;

  constructor(seed: string, write?: (line: string) => void) {
    this.#root = new Process("world", new Dice(`${seed}/world`));
    this.#write = write;
  }

  /** The process on whose behalf code runs now. */
  current(): Process {
    return this.#storage.getStore() ?? this.#root;
  }

  runAs<T>(process: Process, work: () => T): T {
    return this.#storage.run(process, work);
  }

  /**
   * Runs `event` after `ms`, whether or not the current process is still alive. In whole
   * milliseconds, as clocks report them.
   */
  after(ms: number, event: () => void): void {
    const at = this.now + Math.max(0, Math.ceil(ms));
    this.#push({ at, tie: this.current().dice.next(), order: this.#order++, run: event });
  }

  /** Resolves after `ms`. A process that was killed meanwhile does not continue. */
  sleep(ms: number): Promise<void> {
    const process = this.current();
    return new Promise((resolve) =>
      this.after(ms, () => {
        if (process.alive) resolve();
      }),
    );
  }

  /** Runs all events of the next `ms`. */
  async advance(ms: number): Promise<void> {
    const until = this.now + ms;
    for (let next = this.#queue[0]; next !== undefined && next.at <= until;) {
      this.#pop();
      this.now = next.at;
      this.#storage.exit(next.run);
      await microtasks();
      next = this.#queue[0];
    }
    this.now = until;
  }

  /** Adds a line to the history, whose hash tells whether two runs were the same. */
  note(what: string): void {
    const line = `${this.now} ${this.current().name} ${what}`;
    this.#hash.update(line);
    this.#write?.(line);
    this.recent.push(line);
    if (this.recent.length > 2 * RECENT_NOTES) this.recent.splice(0, RECENT_NOTES);
  }

  historyHash(): string {
    return this.#hash.copy().digest("hex");
  }

  /** A binary heap, as thousands of events wait at once. */
  #push(event: Event): void {
    const queue = this.#queue;
    let index = queue.push(event) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!before(event, queue[parent]!)) break;
      queue[index] = queue[parent]!;
      index = parent;
    }
    queue[index] = event;
  }

  #pop(): void {
    const queue = this.#queue;
    const last = queue.pop();
    if (last === undefined || queue.length === 0) return;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= queue.length) break;
      if (child + 1 < queue.length && before(queue[child + 1]!, queue[child]!)) child++;
      if (!before(queue[child]!, last)) break;
      queue[index] = queue[child]!;
      index = child;
    }
    queue[index] = last;
  }
}

function before(a: Event, b: Event): boolean {
  if (a.at !== b.at) return a.at < b.at;
  return a.tie === b.tie ? a.order < b.order : a.tie < b.tie;
}

const setRealImmediate = setImmediate;

/** Resolves when no microtask is left. */
function microtasks(): Promise<void> {
  return new Promise((resolve) => setRealImmediate(resolve));
}
