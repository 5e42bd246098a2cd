/** The people and assets of the demo. */
import type {
  Client,
  Market,
  MarketAsset,
  Stream,
  StreamMessage,
  StreamMessageOf,
} from "../../packages/client/src/index.ts";
import type { Faucet } from "../stack/faucet.ts";
import type { Stack } from "../stack/start-stack.ts";
import type { Narrator } from "./narrator.ts";

export type Person = {
  name: string;
  email: string;
  userId: string;
  session: Client;
  /** Signs with an API key that has the scopes read and trade. */
  client: Client;
  account: Listener;
};

export type World = {
  stack: Stack;
  faucet: Faucet;
  tell: Narrator;
  asset: MarketAsset;
  market: Market;
  taker: Person;
  makers: [Person, Person];
  /** Signs with the taker's key that has the scope withdraw. */
  withdrawer: Client;
  /** Closed at the end. */
  streams: Stream[];
};

/** Longer than any local step takes, so that a demo that hangs fails. */
export const WAIT_MS = 45_000;

/** Keeps the messages of a stream, so that a step finds those that arrived before it started. */
export class Listener {
  readonly stream: Stream;
  readonly messages: { message: StreamMessage; atMs: number }[] = [];
  failure: unknown = null;

  constructor(stream: Stream) {
    this.stream = stream;
    void this.#listen();
  }

  /** Returns the first message that `fits`, or null. Throws the error that ended the stream. */
  async find<T extends StreamMessage["type"]>(
    type: T,
    fits: (data: StreamMessageOf<T>["data"]) => boolean = () => true,
  ): Promise<{ data: StreamMessageOf<T>["data"]; atMs: number; stream: string } | null> {
    if (this.failure !== null) throw this.failure;
    for (const { message, atMs } of this.messages) {
      if (message.type !== type) continue;
      const data = dataOf<T>(message);
      if (fits(data)) return { data, atMs, stream: message.stream };
    }
    return null;
  }

  async #listen(): Promise<void> {
    try {
      for await (const message of this.stream)
        this.messages.push({ message, atMs: performance.now() });
    } catch (error) {
      this.failure = error;
    }
  }
}

/**
 * The type of the message was compared with T, but TypeScript cannot narrow by a type parameter.
 */
function dataOf<T extends StreamMessage["type"]>(
  message: StreamMessage,
): StreamMessageOf<T>["data"] {
  return message.data as StreamMessageOf<T>["data"];
}
