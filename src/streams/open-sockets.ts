/**
 * The open sockets of one object: whose they are, what they are sent, and how they are closed.
 *
 * The end or silence of an *armed* socket cancels the quotes of its key. What that means is known
 * to the domain above (`OnDisconnect`). Armed is a row that was written before the socket was
 * accepted, so cron finds the sockets of an object that died: it asks each object for their ids.
 */
import { errorFields, log } from "../platform/log.ts";
import { now } from "../platform/time.ts";
import type { SocketsOf } from "./notify.ts";
import {
  CLOSE_NOT_READING,
  CLOSE_SERVER_ERROR,
  CLOSE_UNAUTHORIZED,
  closeSocket,
  readState,
  type SocketState,
  tagOf,
  writeState,
} from "./socket.ts";

export type ArmedSocket = {
  /** The socket's place among those of its user. */
  readonly id: string;
  readonly userId: string;
  readonly apiKeyId: string;
  readonly stream: string;
};

/** A socket's place, and when it was last heard. */
export type Heard = { readonly place: string; readonly heardAt: number };

export type OnDisconnect = {
  readonly arm: (socket: ArmedSocket) => Promise<void>;
  /** Idempotent. */
  readonly ended: (socket: ArmedSocket) => Promise<void>;
};

/**
 * How often an object with sockets registers again and looks for events. Only a restore of D1 loses
 * a registration, so this is rare enough to cost little for streams with hibernating sockets.
 */
export const CHECK_MS = 600_000;
/** Unanswered bytes after which a socket is closed. About eight thousand events. */
export const MAX_UNANSWERED_BYTES = 4 * 1_024 * 1_024;
/** An armed socket that sends nothing for this long, not even a ping, has ended. */
export const MAX_SILENCE_MS = 30_000;
const SILENT = "no text frame for 30 s; protocol pings do not count";
/** How exactly the last frame is remembered, so that a busy socket writes its state seldom. */
const HEARD_EVERY_MS = 1_000;
const MAX_TRIES = 10;
const RETRY_MS = 1_000;

export const isOpen = ({ readyState }: WebSocket) => readyState === WebSocket.READY_STATE_OPEN;

export class OpenSockets {
  readonly #ctx: DurableObjectState;
  readonly #stream: string;
  readonly #rule: OnDisconnect;
  /** Upgrades of armed sockets in flight, which keep the object awake. */
  readonly #arming = new Set<string>();
  readonly #ended = new WeakSet<WebSocket>();
  /**
   * What was sent to a socket since it sent anything itself, of which a `ping` is enough. The
   * runtime buffers what a subscriber has not read and does not report how much that is (no
   * `bufferedAmount`). Starts anew after hibernation, before which nothing was sent for a while.
   */
  readonly #unanswered = new WeakMap<WebSocket, { since: number; bytes: number }>();

  constructor(ctx: DurableObjectState, stream: string, rule: OnDisconnect) {
    this.#ctx = ctx;
    this.#stream = stream;
    this.#rule = rule;
  }

  /** Calls `accept`, which makes the socket. Before that it writes the row of an armed one. */
  async add(state: SocketState, accept: () => void): Promise<void> {
    const socket = this.#armedOf(state);
    if (socket === undefined) return accept();
    this.#arming.add(socket.id);
    try {
      await this.#rule.arm(socket);
      accept();
    } finally {
      this.#arming.delete(socket.id);
    }
  }

  heard(socket: WebSocket): void {
    this.#unanswered.delete(socket);
    const state = readState(socket);
    const at = now();
    if (at - state.heardAt >= HEARD_EVERY_MS) writeState(socket, { ...state, heardAt: at });
  }

  /** The places of a user's open sockets, and when each was last heard. */
  heardOf(userId: string): Heard[] {
    return this.#openOf(userId).map((socket) => ({
      place: readState(socket).place,
      heardAt: this.#heardAt(socket),
    }));
  }

  /** Closes a socket whose place is needed. False if it has been heard since `before`. */
  closeSilent(userId: string, place: string, before: number): boolean {
    const socket = this.#openOf(userId).find((open) => readState(open).place === place);
    if (socket === undefined) return true;
    if (this.#heardAt(socket) > before) return false;
    this.close(socket, CLOSE_NOT_READING, "silent for 2 minutes, and a new socket needs its place");
    return true;
  }

  #openOf(userId: string): WebSocket[] {
    return this.#ctx.getWebSockets(tagOf({ userId })).filter(isOpen);
  }

  /** Only text frames count. The runtime shows no protocol ping. */
  #heardAt(socket: WebSocket): number {
    return Math.max(readState(socket).heardAt, this.#pingedAt(socket));
  }

  /** The ids of the sockets that are armed and open, or about to be. */
  armed(): string[] {
    const open = this.#ctx.getWebSockets().filter(isOpen).map(readState);
    return [...this.#arming, ...open.filter(({ armed }) => armed).map(({ place }) => place)];
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

  /** Closes sockets that ended or were silent too long. Returns when the next is due, or null. */
  closeEnded(at: number): number | null {
    let next: number | null = null;
    for (const socket of this.#ctx.getWebSockets()) {
      const { armed, endsAt: end } = readState(socket);
      const endsAt = end ?? Infinity;
      const silentAt = armed ? this.#heardAt(socket) + MAX_SILENCE_MS : Infinity;
      if (endsAt <= at) this.close(socket, CLOSE_UNAUTHORIZED, "credential expired");
      else if (silentAt <= at) this.close(socket, CLOSE_NOT_READING, SILENT);
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
    if (this.#pingedAt(socket) < sent.since) return true;
    this.#unanswered.delete(socket);
    return false;
  }

  /** The runtime answers a ping without us and notes only when the last one came. */
  #pingedAt(socket: WebSocket): number {
    return this.#ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
  }

  close(socket: WebSocket, code: number, reason: string): void {
    closeSocket(socket, code, reason);
    this.ended(socket);
  }

  /** A socket was closed, by either side. Does nothing for one that is not armed. */
  ended(socket: WebSocket): void {
    const armed = this.#armedOf(readState(socket));
    if (armed === undefined || this.#ended.has(socket)) return;
    this.#ended.add(socket);
    this.#ctx.waitUntil(this.#end(armed));
  }

  /** Never throws. Cron ends the socket if the database does not respond for long. */
  async #end(socket: ArmedSocket): Promise<void> {
    for (let attempt = 1; attempt <= MAX_TRIES; attempt++) {
      try {
        return await this.#rule.ended(socket);
      } catch (error) {
        log("error", "streams.disconnect_failed", { stream: this.#stream, ...errorFields(error) });
        await scheduler.wait(RETRY_MS);
      }
    }
  }

  #armedOf({ armed, actor, place }: SocketState): ArmedSocket | undefined {
    const { userId, credential } = actor;
    // Only the tickets of keys have the scope trade.
    if (!armed || credential.kind !== "api_key") return undefined;
    return { id: place, userId, apiKeyId: credential.apiKeyId, stream: this.#stream };
  }
}
