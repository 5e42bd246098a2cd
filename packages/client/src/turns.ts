/** The limits of unanswered commands that the service publishes, and queues that keep to them. */
import { NotSent } from "./problem.ts";
import { LONGEST_TIMER_MS } from "./sleep.ts";

/** Limits are read again after this time, if a command has to wait. */
const LIFE_MS = 600_000;
/** After a failed read it is tried again after this time. */
const RETRY_MS = 5_000;

/** Lets so many commands be unanswered at a time. Others wait in the order in which they came. */
export class Turns {
  #limit: number;
  #taken = 0;
  readonly #waiting = new Set<() => boolean>();
  readonly #onWait: () => void;

  constructor(limit: number, onWait: () => void) {
    this.#limit = limit;
    this.#onWait = onWait;
  }

  set limit(limit: number) {
    this.#limit = limit;
    this.#next();
  }

  /** Takes a place, or calls `ready` once there is one, which returns whether it uses it. */
  take(ready: () => boolean): boolean {
    if (this.#taken < this.#limit && this.#waiting.size === 0) {
      this.#taken++;
      return true;
    }
    this.#waiting.add(ready);
    this.#onWait();
    return false;
  }

  give(): void {
    this.#taken--;
    this.#next();
  }

  /** Sends in its turn. Throws `NotSent` if that does not come before `endsAt`. */
  async run<T>(
    name: string,
    { endsAt, signal }: { endsAt: number; signal?: AbortSignal | undefined },
    send: () => Promise<T>,
  ): Promise<T> {
    await new Promise<void>((resolve, reject) => {
      const ready = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", leave);
        resolve();
        return true;
      };
      const leave = () => {
        clearTimeout(timer);
        this.#waiting.delete(ready);
        reject(signal?.aborted === true ? signal.reason : new NotSent(name));
      };
      const leftMs = Math.max(0, endsAt - performance.now());
      const timer = setTimeout(leave, Math.min(leftMs, LONGEST_TIMER_MS));
      signal?.addEventListener("abort", leave, { once: true });
      if (this.take(ready)) ready();
    });
    try {
      return await send();
    } finally {
      this.give();
    }
  }

  #next(): void {
    for (const ready of this.#waiting) {
      if (this.#taken >= this.#limit) return;
      this.#waiting.delete(ready);
      this.#taken++;
      if (!ready()) this.#taken--;
    }
  }
}

/** What a client may have unanswered at a time. Known once two commands come at a time. */
export class CommandLimits {
  readonly #read: (() => Promise<unknown>) | null;
  /** Of a user in one book. A client does not know the book of a quote, so it counts all. */
  readonly commands: Turns;
  /** Calls and commands that place several quotes. */
  readonly severalQuotes: Turns;
  perSocket = Infinity;
  #dueAt = -Infinity;

  /** `read` returns the `limits` of GET /config. */
  constructor(read: (() => Promise<unknown>) | null) {
    this.#read = read;
    const learn = () => void this.#learn();
    this.commands = new Turns(1, learn);
    this.severalQuotes = new Turns(1, learn);
    if (read === null) this.#set({});
  }

  async #learn(): Promise<void> {
    if (this.#read === null || performance.now() < this.#dueAt) return;
    this.#dueAt = performance.now() + LIFE_MS;
    const published = await this.#read().catch(() => undefined);
    if (published === undefined) this.#dueAt = performance.now() + RETRY_MS;
    if (published !== undefined || this.perSocket === Infinity) this.#set(published);
  }

  #set(published: unknown): void {
    const limits = (published ?? {}) as Record<string, unknown>;
    const limit = (name: string, usual: number) => {
      const value = limits[name];
      return typeof value === "number" && value >= 1 ? value : usual;
    };
    this.perSocket = limit("commands_in_flight_per_socket", 8);
    this.severalQuotes.limit = limit("quote_calls_in_flight_per_user", 2);
    this.commands.limit = limit("commands_in_flight_per_user_and_book", 16);
  }
}
