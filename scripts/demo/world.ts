/** Who and what the story is about. */
import type { Address } from "viem";
import type {
  Client,
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
  /** With an API key of scopes read and trade. */
  client: Client;
  account: Listener;
};

export type World = {
  stack: Stack;
  faucet: Faucet;
  tell: Narrator;
  asset: MarketAsset;
  outcomeTokens: Address;
  usdc: Address;
  taker: Person;
  makers: [Person, Person];
  /** The taker's key with the scope withdraw. */
  withdrawer: Client;
  /** Everything to close at the end. */
  streams: Stream[];
};

/** Longer than anything local takes; a story that hangs must end by itself. */
export const WAIT_MS = 45_000;

/** Keeps what a stream has shown, so that a step can look for what came before it looked. */
export class Listener {
  readonly stream: Stream;
  readonly messages: { message: StreamMessage; atMs: number }[] = [];
  failure: unknown = null;

  constructor(stream: Stream) {
    this.stream = stream;
    void this.#listen();
  }

  /** The first message that `fits`, or null when there is none yet. Throws what the stream ended with. */
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

/** For a message whose type was compared with T: TypeScript does not narrow a union by a type parameter. */
function dataOf<T extends StreamMessage["type"]>(
  message: StreamMessage,
): StreamMessageOf<T>["data"] {
  return message.data as StreamMessageOf<T>["data"];
}
