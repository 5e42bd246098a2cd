/** Limits what is in flight by key, such as the commands of a user. */
export class InFlight<Key> {
  readonly #max: number;
  readonly #counts = new Map<Key, number>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Runs `task`, or returns undefined if `key` has reached the limit. */
  async run<T>(key: Key, task: () => Promise<T>): Promise<T | undefined> {
    const count = this.#counts.get(key) ?? 0;
    if (count >= this.#max) return undefined;
    this.#counts.set(key, count + 1);
    try {
      return await task();
    } finally {
      const left = (this.#counts.get(key) ?? 1) - 1;
      if (left === 0) this.#counts.delete(key);
      else this.#counts.set(key, left);
    }
  }
}
