/** The open sockets of one object: whose they are, what they are sent, and how they are closed. */
import { now } from "../platform/time.ts";
import { ArmedSockets, type OnDisconnect, pingedAt } from "./armed-sockets.ts";
import type { SocketsOf } from "./notify.ts";
import {
  CLOSE_NOT_READING,
  CLOSE_SERVER_ERROR,
  CLOSE_UNAUTHORIZED,
  closeSocket,
  readState,
  tagOf,
} from "./socket.ts";

/**
 * How often an object with sockets registers again and looks for events. Only a restore of D1 loses
 * a registration, so this is rare enough to cost little for streams with hibernating sockets.
 */
export const CHECK_MS = 600_000;

/** Unanswered bytes after which a socket is closed. About eight thousand events. */
export const MAX_UNANSWERED_BYTES = 4 * 1_024 * 1_024;

export class OpenSockets {
  readonly #ctx: DurableObjectState;
  readonly armed: ArmedSockets;
  /**
   * What was sent to a socket since it sent anything itself, of which a `ping` is enough. The
   * runtime buffers what a subscriber has not read and does not report how much that is (no
   * `bufferedAmount`). Starts anew after hibernation, before which nothing was sent for a while.
   */
  readonly #unanswered = new WeakMap<WebSocket, { since: number; bytes: number }>();

  constructor(ctx: DurableObjectState, stream: string, onDisconnect: OnDisconnect) {
    this.#ctx = ctx;
    this.armed = new ArmedSockets(ctx, stream, onDisconnect);
  }

  /** A subscriber has sent a frame. */
  heard(socket: WebSocket): void {
    this.#unanswered.delete(socket);
    this.armed.heard(socket);
  }

  /** The places of a user's open sockets on this stream. */
  placesOf(userId: string): string[] {
    return this.#ctx
      .getWebSockets(tagOf({ userId }))
      .filter((socket) => socket.readyState === WebSocket.READY_STATE_OPEN)
      .map((socket) => readState(socket).place);
  }

  closeOf(whose: SocketsOf): void {
    const below = "belowEpoch" in whose ? whose.belowEpoch : undefined;
    for (const socket of this.#ctx.getWebSockets(tagOf(whose))) {
      const { credential } = readState(socket).actor;
      if (below !== undefined && credential.kind === "session" && credential.epoch >= below)
        continue;
      this.close(socket, CLOSE_UNAUTHORIZED, "credential no longer valid");
    }
  }

  /**
   * Closes sockets of ended credentials, and armed ones that were silent for too long. Returns when
   * the next such end or `check` is due, for the alarm. Null without sockets.
   */
  closeEnded(at: number): number | null {
    let next: number | null = null;
    for (const socket of this.#ctx.getWebSockets()) {
      const endsAt = readState(socket).endsAt ?? Infinity;
      const silentAt = this.armed.silentAt(socket);
      if (endsAt <= at) this.close(socket, CLOSE_UNAUTHORIZED, "credential expired");
      else if (silentAt <= at) this.close(socket, CLOSE_NOT_READING, "sent nothing for 30 s");
      else next = Math.min(endsAt, silentAt, next ?? at + CHECK_MS);
    }
    return next;
  }

  /** Sends a message, or closes the socket if it may not be reading. */
  send(socket: WebSocket, message: string): void {
    if (this.#isSilent(socket, message.length))
      return this.close(socket, CLOSE_NOT_READING, "sent 4 MiB without a ping");
    try {
      socket.send(message);
    } catch {
      this.close(socket, CLOSE_SERVER_ERROR, "could not send");
    }
  }

  /** Counts a message to a socket. Returns whether the socket has been silent for too long. */
  #isSilent(socket: WebSocket, bytes: number): boolean {
    let sent = this.#unanswered.get(socket);
    if (sent === undefined) this.#unanswered.set(socket, (sent = { since: now(), bytes: 0 }));
    sent.bytes += bytes;
    if (sent.bytes <= MAX_UNANSWERED_BYTES) return false;
    if (pingedAt(this.#ctx, socket) < sent.since) return true;
    this.#unanswered.delete(socket);
    return false;
  }

  close(socket: WebSocket, code: number, reason: string): void {
    closeSocket(socket, code, reason);
    this.armed.ended(socket);
  }
}
