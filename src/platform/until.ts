/** Until when something holds, by key. Forgets all keys when full, so it may only save work. */
const MAX_KEYS = 20_000;

export class Until {
  readonly #ends = new Map<string, number>();

  /** `at`: Unix milliseconds. */
  holds(key: string, at: number): boolean {
    return (this.#ends.get(key) ?? 0) > at;
  }

  set(key: string, end: number): void {
    if (this.#ends.size >= MAX_KEYS) this.#ends.clear();
    this.#ends.set(key, end);
  }

  delete(key: string): void {
    this.#ends.delete(key);
  }
}
