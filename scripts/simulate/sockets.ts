/** A websocket between a client and an object. Messages arrive late, but in order. */
import type { VirtualTime } from "./virtual-time.ts";

type Listener = {
  readonly onMessage: (text: string) => void;
  readonly onClose: (code: number) => void;
};

export type ClientEnd = {
  /** Delivers what has arrived before, then everything else as it arrives. */
  listen: (listener: Listener) => void;
  close: (code: number) => void;
};

/** What the object holding the server's end does when the client has closed or vanished. */
type OnClosed = (socket: ServerSocket, code: number) => void;

let world: { time: VirtualTime; latency: () => number } | undefined;

/** `new WebSocketPair()` takes no arguments, so the world is given beforehand. */
export function useSockets(time: VirtualTime, latency: () => number): void {
  world = { time, latency };
}

const [OPEN, CLOSING, CLOSED] = [1, 2, 3];

export class ServerSocket {
  readyState = OPEN;
  tags: readonly string[] = [];
  onClosed: OnClosed = () => {};
  onFrame: (socket: ServerSocket, frame: string) => void = () => {};
  readonly client: ClientEnd;
  #attachment = "null";
  #listener: Listener | undefined;
  readonly #unheard: ((listener: Listener) => void)[] = [];
  #arrives = 0;
  readonly #underWay: (() => void)[] = [];
  #broken = false;

  constructor() {
    this.client = {
      listen: (listener) => {
        this.#listener = listener;
        for (const deliver of this.#unheard.splice(0)) deliver(listener);
      },
      close: (code) => this.#clientCloses(code),
    };
  }

  send(message: string): void {
    if (this.readyState !== OPEN) throw new TypeError("Can't call WebSocket send() after close().");
    this.#inOrder(() => this.#hear((listener) => listener.onMessage(message)));
  }

  close(code: number, _reason: string): void {
    if (this.readyState >= CLOSING!) {
      this.readyState = CLOSED!;
      return;
    }
    this.readyState = CLOSING!;
    this.#inOrder(() => {
      this.#hear((listener) => listener.onClose(code));
      this.readyState = CLOSED!;
      this.onClosed(this, code);
    });
  }

  serializeAttachment(value: unknown): void {
    this.#attachment = JSON.stringify(value);
  }

  deserializeAttachment(): unknown {
    return JSON.parse(this.#attachment);
  }

  /** The object was restarted: the connection ends, and what was in flight is lost. */
  break(): void {
    if (this.#broken) return;
    this.#broken = true;
    this.readyState = CLOSED!;
    this.#hear((listener) => listener.onClose(1006));
  }

  #hear(deliver: (listener: Listener) => void): void {
    if (this.#listener === undefined) this.#unheard.push(deliver);
    else deliver(this.#listener);
  }

  #clientCloses(code: number): void {
    const { time, latency } = active();
    time.after(latency(), () => {
      if (this.#broken || this.readyState !== OPEN) return;
      this.readyState = CLOSING!;
      this.onClosed(this, code);
      this.#broken = true;
    });
  }

  #inOrder(deliver: () => void): void {
    const { time, latency } = active();
    this.#arrives = Math.max(this.#arrives, time.now + latency());
    this.#underWay.push(deliver);
    time.after(this.#arrives - time.now, () => {
      const next = this.#underWay.shift();
      if (!this.#broken) next?.();
    });
  }
}

export class SocketPair {
  readonly 0: ClientEnd;
  readonly 1: ServerSocket;
  constructor() {
    this[1] = new ServerSocket();
    this[0] = this[1].client;
  }
}

function active(): { time: VirtualTime; latency: () => number } {
  if (world === undefined) throw new Error("useSockets was not called");
  return world;
}
