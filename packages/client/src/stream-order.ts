/** Which messages may be shown, and in which order: pure, so that every arrival order can be tested. */
import type { StreamMessage } from "./stream-messages.ts";

/** More out of order than this is a broken connection, not a short overtaking. */
const MOST_HELD = 1_000;

export class StreamOrder {
  readonly #hasSnapshot: boolean;
  /** The last number shown; null while a snapshot is awaited. */
  #last: number | null;
  /** The last number that the server says it has sent. */
  #sent = 0;
  readonly #held = new Map<number, StreamMessage>();

  constructor(options: { hasSnapshot: boolean; since?: number | undefined }) {
    this.#hasSnapshot = options.hasSnapshot;
    this.#last = options.since ?? null;
  }

  /** What to reconnect with; null: with a new snapshot. */
  get since(): number | null {
    return this.#last;
  }

  /** The messages to show now, of this one and of those that waited for it. */
  take(message: StreamMessage): StreamMessage[] {
    switch (message.type) {
      case "hello":
        if (this.#last === null && !this.#hasSnapshot) this.#last = message.seq;
        return [message];
      case "resync":
        this.#held.clear();
        this.#last = this.#hasSnapshot ? null : message.seq;
        return [message];
      case "snapshot":
        if (!message.data.more) this.#last = message.seq;
        return [message, ...this.#released()];
      default:
        return this.#takeEvent(message);
    }
  }

  pong(seq: number): void {
    this.#sent = Math.max(this.#sent, seq);
  }

  /** Something that the server has sent is missing. */
  get hasGap(): boolean {
    return this.#last !== null && (this.#held.size > 0 || this.#sent > this.#last);
  }

  /** A new connection replays what is missing; what was held is replayed with it. */
  disconnected(): void {
    this.#held.clear();
    this.#sent = 0;
  }

  #takeEvent(message: StreamMessage): StreamMessage[] {
    if (this.#last !== null && message.seq <= this.#last) return [];
    if (this.#last === null || message.seq > this.#last + 1) {
      if (this.#held.size < MOST_HELD) this.#held.set(message.seq, message);
      return [];
    }
    this.#last = message.seq;
    return [message, ...this.#released()];
  }

  #released(): StreamMessage[] {
    const messages: StreamMessage[] = [];
    while (this.#last !== null) {
      const next = this.#held.get(this.#last + 1);
      if (next === undefined) break;
      this.#held.delete(next.seq);
      this.#last = next.seq;
      messages.push(next);
    }
    if (this.#last !== null)
      for (const seq of this.#held.keys()) if (seq <= this.#last) this.#held.delete(seq);
    return messages;
  }
}
