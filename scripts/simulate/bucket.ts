/**
 * R2: objects by name, put only if absent, and its failures. A request never arrives, an answer is
 * lost, all requests fail for a while, a put is confirmed and lost, or a read returns other bytes
 * than were written. Keys are locked: every other put on one that exists throws.
 */
import type { VirtualTime } from "./virtual-time.ts";
import { CLEAR, fateOf, type Weather } from "./weather.ts";

/** What every read returns while the bucket lies. `losing` concerns puts. */
export const LIES = ["truncated", "changed", "older", "nothing", "losing"] as const;
export type Lie = (typeof LIES)[number];

type Bytes = Uint8Array<ArrayBuffer>;
type Range = { readonly offset?: number; readonly length?: number; readonly suffix?: number };

export class Bucket {
  readonly #time: VirtualTime;
  readonly #objects = new Map<string, Bytes>();
  weather: Weather = CLEAR;
  /** Until then all requests fail. */
  awayUntil = 0;
  lie: Lie | undefined;
  /** Puts on keys that exist. */
  #refused = 0;
  /** Since when, and until when, the stored bytes of the newest object are other ones. */
  #damage: { readonly key: string; readonly bytes: Bytes; readonly since: number } | undefined;

  constructor(time: VirtualTime) {
    this.#time = time;
  }

  /** The binding, as the service sees it. */
  binding(): object {
    return {
      get: (key: string, options: { range?: Range } = {}) =>
        this.#call(`get ${key}`, () => this.#get(key, options.range)),
      put: (key: string, bytes: Bytes, options: { onlyIf?: Headers } = {}) =>
        this.#call(`put ${key}`, () => this.#put(key, bytes, options.onlyIf)),
      head: (key: string) =>
        this.#call(`head ${key}`, () => (this.#objects.has(key) ? { key } : null)),
    };
  }

  /** The bytes that were written, for the simulator's own checks. */
  written(key: string): Bytes | undefined {
    return this.#damage?.key === key ? this.#damage.bytes : this.#objects.get(key);
  }

  keys(): readonly string[] {
    return [...this.#objects.keys()];
  }

  /** Changes the stored bytes of an object, until `heal`. */
  damage(key: string): void {
    const bytes = this.#objects.get(key);
    if (bytes === undefined || this.#damage !== undefined) return;
    this.#time.note(`r2 damage ${key}`);
    this.#damage = { key, bytes, since: this.#time.now };
    this.#objects.set(key, changed(bytes));
  }

  /** Since when the object has other bytes than were written. */
  damagedSince(key: string): number | undefined {
    return this.#damage?.key === key ? this.#damage.since : undefined;
  }

  get disturbed(): boolean {
    const away = this.awayUntil > this.#time.now;
    return away || this.lie !== undefined || this.#damage !== undefined;
  }

  heal(): void {
    this.weather = CLEAR;
    this.awayUntil = 0;
    this.lie = undefined;
    if (this.#damage !== undefined) this.#objects.set(this.#damage.key, this.#damage.bytes);
    this.#damage = undefined;
  }

  #get(key: string, range?: Range): object | null {
    const stored = this.#lieAbout(key);
    if (stored === undefined) return null;
    const bytes = part(stored, range);
    return { size: stored.length, arrayBuffer: async () => bytes.slice().buffer };
  }

  #lieAbout(key: string): Bytes | undefined {
    const bytes = this.#objects.get(key);
    if (bytes === undefined) return undefined;
    switch (this.lie) {
      case "truncated":
        return bytes.slice(0, -1);
      case "changed":
        // A second change would undo the damage, and the service would read what was written.
        return this.#damage?.key === key ? bytes : changed(bytes);
      case "older":
        return this.#objects.values().next().value;
      case "nothing":
        return undefined;
      default:
        return bytes;
    }
  }

  #put(key: string, bytes: Bytes, onlyIf?: Headers): object | null {
    if (onlyIf?.get("if-none-match") !== "*") throw new Error("the archive overwrites an object");
    if (this.#objects.has(key)) {
      if (++this.#refused % 2 === 1) throw new Error("put: locked object (10069)");
      return null;
    }
    if (this.lie !== "losing") this.#objects.set(key, bytes.slice());
    return { key };
  }

  #call<T>(what: string, run: () => T): Promise<T> {
    const time = this.#time;
    const process = time.current();
    const away = this.awayUntil > time.now;
    const fate = fateOf(process.dice, this.weather, "network");
    return new Promise((resolve, reject) => {
      const settle = (done: () => void) =>
        time.after(fate.back, () => {
          if (process.alive) done();
        });
      time.after(fate.there, () => {
        time.note(`r2 for ${process.name}: ${what} ${away ? "away" : fate.lost}`);
        const lost = () => reject(new Error("10001: We encountered an internal error."));
        if (away || fate.lost === "request") return settle(lost);
        try {
          const value = run();
          settle(fate.lost === "answer" ? lost : () => resolve(value));
        } catch (error) {
          settle(fate.lost === "answer" ? lost : () => reject(error));
        }
      });
    });
  }
}

function part(bytes: Bytes, { offset = 0, length, suffix }: Range = {}): Bytes {
  if (suffix !== undefined) return bytes.slice(Math.max(0, bytes.length - suffix));
  return bytes.slice(offset, length === undefined ? undefined : offset + length);
}

/** One bit in the middle is another. */
function changed(bytes: Bytes): Bytes {
  const copy = bytes.slice();
  const middle = copy.length >> 1;
  copy[middle] = (copy[middle] ?? 0) ^ 1;
  return copy;
}
