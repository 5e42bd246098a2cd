/** What a hibernating socket remembers: its attachment survives the object's sleep, at most 16 KiB of it. */
import type { SocketsOf } from "./notify.ts";
import type { Actor } from "../platform/actor.ts";

export type SocketState = {
  readonly actor: Actor;
  /** Unix milliseconds at which the credential behind the socket ends; null when it does not. */
  readonly endsAt: number | null;
  /** Start of the current minute of bad frames, and how many it had. */
  readonly malformedSince: number;
  readonly malformedFrames: number;
};

/** The credential behind the socket was revoked, expired or frozen: get a new one before you reconnect. */
export const CLOSE_UNAUTHORIZED = 4401;
/** RFC 6455: policy violation, here too many bad frames. */
export const CLOSE_POLICY = 1008;
/** RFC 6455: the server gives up on the socket; reconnect with `since`. */
export const CLOSE_SERVER_ERROR = 1011;

export function socketTags({ userId, credential }: Actor): string[] {
  return [
    tagOf({ userId }),
    tagOf(
      credential.kind === "api_key" ? { apiKeyId: credential.apiKeyId } : { sessionsOf: userId },
    ),
  ];
}

export function tagOf(whose: SocketsOf): string {
  if ("userId" in whose) return `user:${whose.userId}`;
  return "apiKeyId" in whose ? `key:${whose.apiKeyId}` : `sessions:${whose.sessionsOf}`;
}

export function readState(socket: WebSocket): SocketState {
  // Only `acceptSocket` writes attachments, and always this shape.
  return socket.deserializeAttachment() as SocketState;
}

/** The actor of an upgrade, handed from the Worker to the object in a header that no outside request can reach it with. */
export const ACTOR_HEADER = "x-stream-actor";

/** Codes that no frame carries: they say that a peer sent none, or vanished. */
const NEVER_SENT = new Set([1005, 1006, 1015]);

/** A close frame is answered with one (RFC 6455 §5.5.1); for hibernating sockets the runtime leaves that to us. */
export function answerClose(socket: WebSocket, code: number): void {
  closeSocket(socket, NEVER_SENT.has(code) ? 1000 : code, "");
}

export function closeSocket(socket: WebSocket, code: number, reason: string): void {
  try {
    socket.close(code, reason);
  } catch {
    // Already closing: getWebSockets() may still list it.
  }
}
