/** Messages that have arrived and were not read yet. */

/** A reader who falls this far behind is disconnected, and reconnected where it stands when it has caught up. */
const MOST_UNREAD = 10_000;

export class Inbox<T> {
  readonly #items: T[] = [];
  #head = 0;
  #ended = false;
  #error: unknown = null;
  #wake: (() => void) | null = null;
  #room: (() => void) | null = null;

  /** False when the reader is too far behind. The message is kept all the same: it counts as shown. */
  put(item: T): boolean {
    this.#items.push(item);
    this.#wake?.();
    return this.#items.length - this.#head < MOST_UNREAD;
  }

  /** The next message, or null at the end. Throws what the stream ended with, after the last message. */
  async next(): Promise<T | null> {
    for (;;) {
      if (this.#head < this.#items.length) return this.#take();
      if (this.#error !== null) throw this.#error;
      if (this.#ended) return null;
      await new Promise<void>((resolve) => (this.#wake = resolve));
      this.#wake = null;
    }
  }

  /** Resolves when the reader is no longer far behind, or there is no reader to wait for. */
  async roomAgain(): Promise<void> {
    while (!this.#ended && this.#items.length - this.#head >= MOST_UNREAD / 2) {
      await new Promise<void>((resolve) => (this.#room = resolve));
      this.#room = null;
    }
  }

  end(error: unknown): void {
    this.#ended = true;
    this.#error = error;
    this.#wake?.();
    this.#room?.();
  }

  #take(): T | null {
    const item = this.#items[this.#head++] ?? null;
    // Shifting one by one would be quadratic for a long backlog.
    if (this.#head > 1_000 && this.#head * 2 > this.#items.length) {
      this.#items.splice(0, this.#head);
      this.#head = 0;
    }
    this.#room?.();
    return item;
  }
}
