/** Messages that have arrived and have not been read. */

/**
 * A loop this far behind is disconnected. It reconnects after it has caught up. If no loop has ever
 * begun, the stream serves commands, and the messages are dropped instead.
 */
const MOST_UNREAD = 10_000;

export class Inbox<T> {
  readonly #items: T[] = [];
  #head = 0;
  #ended = false;
  #error: unknown = null;
  #isRead = false;
  #dropped = false;
  #wake: (() => void) | null = null;
  #onRoom: (() => void) | null = null;

  /**
   * Adds a message. Returns false if the loop is too far behind. The message is kept even then,
   * because it counts as delivered.
   */
  put(item: T): boolean {
    if (this.#dropped) return true;
    this.#items.push(item);
    this.#wake?.();
    if (this.#items.length - this.#head < MOST_UNREAD) return true;
    if (this.#isRead) return false;
    this.#items.length = 0;
    this.#dropped = true;
    return true;
  }

  /** Begins a loop. Throws if messages were dropped, because it would not receive every message. */
  begin(): void {
    if (this.#dropped)
      throw new Error(
        `The loop began too late: the stream dropped its messages after ${MOST_UNREAD} unread ones.`,
      );
    this.#isRead = true;
  }

  /**
   * Returns the next message, or null at the end. Throws the error that ended the stream after the
   * last message.
   */
  async next(): Promise<T | null> {
    for (;;) {
      if (this.#head < this.#items.length) return this.#take();
      if (this.#error !== null) throw this.#error;
      if (this.#ended) return null;
      await new Promise<void>((resolve) => (this.#wake = resolve));
      this.#wake = null;
    }
  }

  /** Resolves when the loop has caught up, if there is one, or when the stream has ended. */
  async caughtUp(): Promise<void> {
    while (this.#isRead && !this.#ended && this.#items.length - this.#head >= MOST_UNREAD / 2) {
      await new Promise<void>((resolve) => (this.#onRoom = resolve));
      this.#onRoom = null;
    }
  }

  end(error: unknown): void {
    this.#ended = true;
    this.#error = error;
    this.#wake?.();
    this.#onRoom?.();
  }

  #take(): T | null {
    const item = this.#items[this.#head++] ?? null;
    // Removes in bulk, because shifting each item would be quadratic for a long backlog.
    if (this.#head > 1_000 && this.#head * 2 > this.#items.length) {
      this.#items.splice(0, this.#head);
      this.#head = 0;
    }
    this.#onRoom?.();
    return item;
  }
}
