/** Puts messages in order. Pure, so that tests can cover every order of arrival. */
import type { StreamMessage } from "./stream-messages.ts";

/** With more messages out of order than this, the connection is broken. */
const MOST_HELD = 1_000;

/** The order of one stream, across its connections. */
export class StreamOrder {
  readonly #hasSnapshot: boolean;
  /** The service leaves out the events of other assets, so numbers have gaps. */
  readonly #filtered: boolean;
  /** Number of the last delivered event, null until the first snapshot. */
  #last: number | null;
  /** The last number that the service reports as sent. */
  #sent = 0;
  readonly #held = new Map<number, StreamMessage>();

  constructor(options: { hasSnapshot: boolean; filtered?: boolean; since?: number | undefined }) {
    this.#hasSnapshot = options.hasSnapshot;
    this.#filtered = options.filtered ?? false;
    this.#last = options.since ?? null;
  }

  /** The number to reconnect with. Null: reconnect without one, for a new snapshot. */
  get since(): number | null {
    return this.#last;
  }

  /** Returns the messages to deliver now: this one and those that waited for it. */
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

  /** Records the number in a pong: the last one that the service has sent. */
  pong(seq: number): void {
    this.#sent = Math.max(this.#sent, seq);
  }

  /** Whether an event that the service has sent is missing. */
  get hasGap(): boolean {
    if (this.#filtered) return false;
    return this.#last !== null && (this.#held.size > 0 || this.#sent > this.#last);
  }

  /** Drops what was kept back, because the next connection replays it. */
  disconnected(): void {
    this.#held.clear();
    this.#sent = 0;
  }

  #takeEvent(message: StreamMessage): StreamMessage[] {
    if (this.#last !== null && message.seq <= this.#last) return [];
    if (this.#last === null || (message.seq > this.#last + 1 && !this.#filtered)) {
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
