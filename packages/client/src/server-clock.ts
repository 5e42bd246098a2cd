/** The service's clock as the client knows it, and deadlines by it. */
import { sleep } from "./sleep.ts";

/** It is compared again after this time. */
const LIFE_MS = 600_000;
/** After a failed comparison it is tried again after this time. */
const RETRY_MS = 5_000;
/** A caller does not wait longer than this for a comparison. */
const LONGEST_WAIT_MS = 1_000;
/** The service's instants may differ by this from what the clock says, besides its own error. */
const MARGIN_MS = 50;

/** An attempt: when it was sent by the monotonic clock, and the `ahead` of then. */
export type SentAt = { at: number; ahead: number };

/**
 * Anchored to the monotonic clock, because others may set the wall clock at any time. A monotonic
 * clock may stand still while the machine sleeps, so what the service says of its time counts more.
 */
export class ServerClock {
  readonly #read: (() => Promise<unknown>) | null;
  /** The service's Unix milliseconds minus `performance.now()`. */
  #ahead: number;
  /** By how much it may be wrong: half of the time that the comparison took. */
  #errorMs = 0;
  #isCompared = false;
  #dueAt = -Infinity;
  #reading: Promise<void> | null = null;

  /** `read` returns the service's Unix milliseconds. `guess` holds until the first comparison. */
  constructor(guess: () => number, read: (() => Promise<unknown>) | null) {
    this.#ahead = guess() - performance.now();
    this.#read = read;
  }

  get ahead(): number {
    return this.#ahead;
  }

  /** The service's Unix milliseconds. */
  now(): number {
    return performance.now() + this.#ahead;
  }

  /** Compares the clocks, unless that was done recently. Never throws. */
  async fresh(leftMs: number, signal?: AbortSignal): Promise<void> {
    if (performance.now() >= this.#dueAt) await this.#again(leftMs, signal);
  }

  /** The service said that it is at least this late. */
  atLeast(unixMs: number): void {
    const isLater = unixMs > this.now() + this.#errorMs;
    const isBetter = !this.#isCompared && Number.isFinite(unixMs);
    if (isLater || isBetter) this.#ahead = unixMs - performance.now();
  }

  /** A timestamp that was made with this `ahead` was wrong by so much. */
  correct(ahead: number, skewMs: number): void {
    this.#ahead = ahead - skewMs;
    this.#dueAt = -Infinity;
  }

  /**
   * Whether the service's instant contradicts what the clock said during an attempt. Then the
   * clocks have been compared since.
   */
  async wasWrong(unixMs: number, sent: SentAt, leftMs: number): Promise<boolean> {
    const margin = this.#errorMs + MARGIN_MS;
    const early = unixMs < sent.at + sent.ahead - margin;
    const late = unixMs > performance.now() + sent.ahead + margin;
    if (!early && !late) return false;
    // Another call may have compared them meanwhile.
    if (this.#ahead === sent.ahead) {
      this.atLeast(unixMs);
      await this.#again(leftMs);
    }
    return true;
  }

  async #again(leftMs: number, signal?: AbortSignal): Promise<void> {
    if (this.#read === null || signal?.aborted === true) return;
    this.#reading ??= this.#compare(this.#read).finally(() => (this.#reading = null));
    const stop = new AbortController();
    const signals = signal === undefined ? [stop.signal] : [stop.signal, signal];
    const waited = sleep(Math.min(leftMs / 2, LONGEST_WAIT_MS), AbortSignal.any(signals));
    await Promise.race([this.#reading, waited.catch(() => {})]);
    stop.abort();
  }

  async #compare(read: () => Promise<unknown>): Promise<void> {
    const before = performance.now();
    this.#dueAt = before + RETRY_MS;
    const unixMs = await read().catch(() => undefined);
    if (typeof unixMs !== "number" || !Number.isFinite(unixMs)) return;
    const after = performance.now();
    this.#ahead = unixMs - (before + after) / 2;
    this.#errorMs = (after - before) / 2;
    this.#isCompared = true;
    this.#dueAt = after + LIFE_MS;
  }
}

/** Until when a call may take effect: `not_after` if it is given, else `maxAgeMs` after the call. */
export class Deadline {
  readonly #clock: ServerClock;
  readonly #given: Date | string | undefined;
  readonly #maxAgeMs: number;
  readonly #begunAt = performance.now();
  readonly #begunAtWall = Date.now();

  constructor(
    clock: ServerClock,
    {
      not_after,
      maxAgeMs = Infinity,
    }: { not_after?: Date | string | undefined; maxAgeMs?: number | undefined },
  ) {
    this.#clock = clock;
    this.#given = not_after;
    this.#maxAgeMs = not_after === undefined ? maxAgeMs : Infinity;
  }

  get exists(): boolean {
    return this.#given !== undefined || this.#maxAgeMs !== Infinity;
  }

  /** By `performance.now()`. From then on nothing is sent. */
  get sendBefore(): number {
    if (this.#given === undefined) return this.#begunAt + this.#maxAgeMs;
    const instant = new Date(this.#given).getTime();
    // The service rejects an instant that it cannot read.
    return Number.isNaN(instant) ? Infinity : instant - this.#clock.ahead;
  }

  /** As it is sent. */
  get notAfter(): string | undefined {
    if (!this.exists) return undefined;
    const { sendBefore } = this;
    return sendBefore === Infinity
      ? String(this.#given)
      : new Date(Math.round(sendBefore + this.#clock.ahead)).toISOString();
  }

  /**
   * Whether there is time to send it again, after the service's clock turned out to be another. By
   * both clocks of this machine, because the monotonic one may have stood still.
   */
  get allowsCorrection(): boolean {
    const ageMs = Math.max(performance.now() - this.#begunAt, Date.now() - this.#begunAtWall);
    return this.#given === undefined && ageMs < this.#maxAgeMs;
  }
}

/** The instant at which the service found a deadline passed, in a problem or among results. */
export function deadlinePassedAt(answer: unknown): number {
  const { results, ...body } = (answer ?? {}) as Refusal;
  const refused = [body, ...(results ?? []).map(({ problem }) => problem)];
  const found = refused.find((problem) => problem?.code === "deadline_passed");
  return Date.parse(found?.server_time ?? "");
}

type Refusal = {
  code?: string;
  server_time?: string;
  results?: { problem: { code?: string; server_time?: string } | null }[];
};
