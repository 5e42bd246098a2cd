/**
 * Room for what all calls of an object do at once: it has 128 MB, and six connections. Who came
 * first enters first, so a call that reads ahead waits for nothing that waits for it.
 */
export class Room {
  readonly #size: number;
  #taken = 0;
  #waiting: { readonly size: number; readonly enter: () => void }[] = [];

  constructor(size: number) {
    this.#size = size;
  }

  /** Resolves when there is room, of which a larger one takes all. Then `leave` must follow. */
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
