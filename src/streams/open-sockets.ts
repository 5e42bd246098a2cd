/** The open sockets of one object: whose they are, and how they are closed. */
import type { ArmedSockets } from "./armed-sockets.ts";
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

export class OpenSockets {
  readonly #ctx: DurableObjectState;
  readonly #armed: ArmedSockets;

  constructor(ctx: DurableObjectState, armed: ArmedSockets) {
    this.#ctx = ctx;
    this.#armed = armed;
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
   * Closes the sockets whose credential has ended, and the armed ones that were silent for too
   * long. Returns when the alarm must run next: at the next such end or for the next `check`. Null
   * without sockets.
   */
  closeEnded(at: number): number | null {
    let next: number | null = null;
    for (const socket of this.#ctx.getWebSockets()) {
      const endsAt = readState(socket).endsAt ?? Infinity;
      const silentAt = this.#armed.silentAt(socket);
      if (endsAt <= at) this.close(socket, CLOSE_UNAUTHORIZED, "credential expired");
      else if (silentAt <= at) this.close(socket, CLOSE_NOT_READING, "sent nothing for 30 s");
      else next = Math.min(endsAt, silentAt, next ?? at + CHECK_MS);
    }
    return next;
  }

  send(socket: WebSocket, message: string): void {
    try {
      socket.send(message);
    } catch {
      this.close(socket, CLOSE_SERVER_ERROR, "could not send");
    }
  }

  close(socket: WebSocket, code: number, reason: string): void {
    closeSocket(socket, code, reason);
    this.#armed.ended(socket);
  }
}
