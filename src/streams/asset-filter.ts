/**
 * Sockets of a venue stream that receive only chosen assets. Numbers stay the stream's, so they
 * have gaps. `skipped` says up to which number a socket has all that is for it, to resume from.
 */
import { type Rendered, renderControl } from "./render.ts";
import { readState } from "./socket.ts";

/** After so many filtered events a socket receives the number to resume from. */
export const SKIPPED_EVERY = 1_000;

export class AssetFilter {
  readonly #stream: string;
  /** The last number that each socket has received. Starts anew after hibernation. */
  readonly #last = new WeakMap<WebSocket, number>();

  constructor(stream: string) {
    this.#stream = stream;
  }

  /** What the socket receives for an event: its message, now and then `skipped`, or nothing. */
  messageTo(socket: WebSocket, { seq, message, assetId }: Rendered): string | undefined {
    const { assets } = readState(socket);
    if (assets === null) return message;
    if (assetId !== undefined && assets.has(assetId)) {
      this.#last.set(socket, seq);
      return message;
    }
    const last = this.#last.get(socket) ?? seq - 1;
    if (seq - last >= SKIPPED_EVERY) return this.skippedTo(socket, seq);
    this.#last.set(socket, last);
    return undefined;
  }

  /** The message for a socket that has received its events up to `seq`. */
  skippedTo(socket: WebSocket, seq: number): string | undefined {
    if (readState(socket).assets === null) return undefined;
    this.#last.set(socket, seq);
    return renderControl("skipped", this.#stream, seq, { reason: "other assets" });
  }

  wantsRecord(socket: WebSocket, record: object): boolean {
    const { assets } = readState(socket);
    return assets === null || ("asset_id" in record && assets.has(String(record.asset_id)));
  }
}
