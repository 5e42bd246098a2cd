/**
 * A budget that all calls of an object share, because it has 128 MB and six connections. Callers
 * enter in the order of arrival, so a call that reads ahead never waits for one that waits for it.
 */
export class Room {
  readonly #size: number;
  #taken = 0;
  #waiting: { readonly size: number; readonly enter: () => void }[] = [];

  constructor(size: number) {
    this.#size = size;
  }

  /** Resolves when `size` fits. A larger one takes the whole budget. The caller must `leave`. */
  enter(size: number): Promise<void> {
    return new Promise((enter) => {
      this.#waiting.push({ size: this.#within(size), enter });
      this.#admit();
    });
  }

  leave(size: number): void {
    this.#taken -= this.#within(size);
    this.#admit();
  }

  #within(size: number): number {
    return Math.min(size, this.#size);
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (this.#taken + next.size > this.#size) return;
      this.#taken += next.size;
      this.#waiting.shift();
      next.enter();
    }
  }
}
