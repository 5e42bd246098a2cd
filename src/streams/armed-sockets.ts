/**
 * The armed sockets of one object: those whose end, or whose silence, cancels the quotes of their
 * key. What that means is known to the domain above (`OnDisconnect`).
 *
 * Armed is a row that was written before the socket was accepted. So cron finds the sockets of an
 * object that died: it asks each object which of its rows have an open socket.
 */
import { errorFields, log } from "../platform/log.ts";
import { now } from "../platform/time.ts";
import { readState, type SocketState, writeState } from "./socket.ts";

export type ArmedSocket = {
  /** The socket's place among those of its user. */
  readonly id: string;
  readonly userId: string;
  readonly apiKeyId: string;
  readonly stream: string;
};

export type OnDisconnect = {
  readonly arm: (socket: ArmedSocket) => Promise<void>;
  /** Idempotent. */
  readonly ended: (socket: ArmedSocket) => Promise<void>;
};

/** A socket that sends nothing for this long, not even a ping, has ended. */
export const MAX_SILENCE_MS = 30_000;
/** How exactly the last frame is remembered, so that a busy socket writes its state seldom. */
const HEARD_EVERY_MS = 1_000;
const MAX_TRIES = 10;
const RETRY_MS = 1_000;

/** The runtime answers a ping without us and notes only when the last one came. */
export function pingedAt(ctx: DurableObjectState, socket: WebSocket): number {
  return ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
}

export class ArmedSockets {
  readonly #ctx: DurableObjectState;
  readonly #stream: string;
  readonly #rule: OnDisconnect;
  /** Upgrades in flight, which keep the object awake. */
  readonly #opening = new Set<string>();
  readonly #ended = new WeakSet<WebSocket>();

  constructor(ctx: DurableObjectState, stream: string, rule: OnDisconnect) {
    this.#ctx = ctx;
    this.#stream = stream;
    this.#rule = rule;
  }

  /** Writes the row of an armed socket, then calls `accept`, which makes the socket. */
  async open(state: SocketState, accept: () => void): Promise<void> {
    const socket = this.#armedOf(state);
    if (socket === undefined) return accept();
    this.#opening.add(socket.id);
    try {
      await this.#rule.arm(socket);
      accept();
    } finally {
      this.#opening.delete(socket.id);
    }
  }

  heard(socket: WebSocket): void {
    const state = readState(socket);
    const at = now();
    if (state.armed && at - state.heardAt >= HEARD_EVERY_MS)
      writeState(socket, { ...state, heardAt: at });
  }

  /** When the socket has been silent for too long. Infinity if it is not armed. */
  silentAt(socket: WebSocket): number {
    const { armed, heardAt } = readState(socket);
    if (!armed) return Infinity;
    return Math.max(heardAt, pingedAt(this.#ctx, socket)) + MAX_SILENCE_MS;
  }

  /** A socket was closed, by either side. Does nothing for one that is not armed. */
  ended(socket: WebSocket): void {
    const armed = this.#armedOf(readState(socket));
    if (armed === undefined || this.#ended.has(socket)) return;
    this.#ended.add(socket);
    this.#ctx.waitUntil(this.#end(armed));
  }

  /** The ids of the sockets that are armed and open, or about to be. */
  ids(): string[] {
    const open = this.#ctx
      .getWebSockets()
      .filter((socket) => socket.readyState === WebSocket.READY_STATE_OPEN)
      .map(readState);
    return [...this.#opening, ...open.filter(({ armed }) => armed).map(({ place }) => place)];
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
