/** The state of a hibernating socket. Its attachment, at most 16 KiB, survives hibernation. */
import type { SocketsOf } from "./notify.ts";
import type { Actor } from "../platform/actor.ts";

export type SocketState = {
  readonly actor: Actor;
  /** Unix milliseconds at which the credential of the socket ends; null when it does not. */
  readonly endsAt: number | null;
  /** The socket's place among those of its user (socket-places.ts). */
  readonly place: string;
  /** Whether its end cancels the quotes of its key (open-sockets.ts). */
  readonly armed: boolean;
  /** The assets whose events it receives; null for all (asset-filter.ts). */
  readonly assets: ReadonlySet<string> | null;
  /** Unix milliseconds of about the last text frame but `ping`, or of the upgrade. */
  readonly heardAt: number;
  /** Start of the current minute and its number of malformed frames. */
  readonly malformedSince: number;
  readonly malformedFrames: number;
};

/** The credential was revoked or has expired, or its user is frozen. Get a new one to reconnect. */
export const CLOSE_UNAUTHORIZED = 4401;
/**
 * The subscriber may not be reading: it was sent 4 MiB without sending anything itself, has armed
 * its socket and sent nothing for 30 s, or nothing for 2 minutes when its user needed the place.
 * Reconnect with `since`, and send `ping`.
 */
export const CLOSE_NOT_READING = 4408;
/** RFC 6455: policy violation, here too many malformed frames or too many frames. */
export const CLOSE_POLICY = 1008;
/** RFC 6455: the message is too big to process. */
export const CLOSE_TOO_BIG = 1009;
/** RFC 6455: the server cannot serve the socket any more. Reconnect with `since`. */
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

/** Read for every frame. To read an attachment takes longer than the rest of a refused frame. */
const states = new WeakMap<WebSocket, SocketState>();

export function readState(socket: WebSocket): SocketState {
  const known = states.get(socket);
  if (known !== undefined) return known;
  // Safe cast: only `writeState` writes attachments, always of this type.
  const state = socket.deserializeAttachment() as SocketState;
  states.set(socket, state);
  return state;
}

export function writeState(socket: WebSocket, state: SocketState): void {
  socket.serializeAttachment(state);
  states.set(socket, state);
}

/** The actor of an upgrade, from the Worker to the object. No outside request can set it there. */
export const ACTOR_HEADER = "x-stream-actor";

type Upgrade = Pick<SocketState, "actor" | "endsAt"> & Partial<Pick<SocketState, "armed">>;

export function readUpgrade(request: Request): Upgrade {
  // Safe cast: the Worker writes the header (routes.ts), always of this type.
  return JSON.parse(request.headers.get(ACTOR_HEADER) ?? "null") as Upgrade;
}

/** Codes that no frame carries (RFC 6455 section 7.4.1): the peer sent none, or vanished. */
const NEVER_SENT = new Set([1005, 1006, 1015]);

/** Answers a close frame (RFC 6455 section 5.5.1). The runtime does not for hibernating sockets. */
export function answerClose(socket: WebSocket, code: number): void {
  closeSocket(socket, NEVER_SENT.has(code) ? 1000 : code, "");
}

export function closeSocket(socket: WebSocket, code: number, reason: string): void {
  try {
    socket.close(code, reason);
  } catch {
    // Already closing: `getWebSockets()` may still list it.
  }
}
