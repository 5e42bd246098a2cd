/** WebSockets of any runtime. */

/**
 * The fields used of a websocket's events. `type` is not used, but all events have it, so
 * TypeScript accepts the event types of every runtime.
 */
type SocketEvent = {
  readonly type?: string;
  readonly data?: unknown;
  readonly code?: number;
  readonly reason?: string;
};

/** The part of a WebSocket that the client uses. */
export type WebSocketLike = {
  send(text: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(
    type: "open" | "message" | "close" | "error",
    listener: (event: SocketEvent) => void,
  ): void;
};

export function globalWebSocket(): new (url: string) => WebSocketLike {
  if (typeof WebSocket === "undefined") {
    throw new Error(
      "This runtime has no WebSocket. Pass a class as `webSocket`, for example of the package ws.",
    );
  }
  // All runtimes' classes fit, but their declared types differ.
  return WebSocket as unknown as new (url: string) => WebSocketLike;
}

export function sendQuietly(socket: WebSocketLike, text: string): void {
  try {
    socket.send(text);
  } catch {
    // Already closing, and its close event follows.
  }
}

export function closeQuietly(socket: WebSocketLike | null): void {
  try {
    socket?.close(1000);
  } catch {
    // Already closed.
  }
}
