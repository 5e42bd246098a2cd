/**
 * Finds subscribers that may not read. The runtime buffers what a subscriber has not read and does
 * not report how much that is (no `bufferedAmount`). So what is sent to a socket is counted until
 * it sends anything itself, of which a `ping` is enough.
 */
import { now } from "../platform/time.ts";

/** About eight thousand events. */
export const MAX_UNANSWERED_BYTES = 4 * 1_024 * 1_024;

export class SilentSockets {
  readonly #ctx: DurableObjectState;
  /** Starts anew after hibernation, before which nothing was sent for a while. */
  readonly #sent = new WeakMap<WebSocket, { since: number; bytes: number }>();

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
  }

  /** The socket has sent a frame. */
  heard(socket: WebSocket): void {
    this.#sent.delete(socket);
  }

  /** Counts a message to a socket. Returns whether the socket has been silent for too long. */
  count(socket: WebSocket, bytes: number): boolean {
    let sent = this.#sent.get(socket);
    if (sent === undefined) this.#sent.set(socket, (sent = { since: now(), bytes: 0 }));
    sent.bytes += bytes;
    if (sent.bytes <= MAX_UNANSWERED_BYTES) return false;
    // The runtime answers a ping without us and notes only when the last one came.
    const pingedAt = this.#ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
    if (pingedAt < sent.since) return true;
    this.#sent.delete(socket);
    return false;
  }
}
