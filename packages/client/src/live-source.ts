/** A stream that live maps share, such as the account stream of a client. */
import type { Applied } from "./live-account.ts";
import type { Stream, StreamOptions } from "./stream.ts";
import { sleep } from "./sleep.ts";
import type { StreamMessage } from "./stream-messages.ts";

/** How long to wait before a new snapshot, so that many gaps cost one. */
const RELOAD_DELAY_MS = 1_000;

export type OnDisconnect = NonNullable<StreamOptions["onDisconnect"]>;

/** What the messages of a stream change. */
export type LiveState = { apply: (message: StreamMessage) => Applied };

/** A map, as far as the stream knows it. */
export type LiveUse = {
  /** The state may have changed. An error that it throws ends this use. */
  changed: () => void;
  /** The stream has ended. The state does not change any more. */
  failed: (error: unknown) => void;
  onDisconnect?: OnDisconnect | undefined;
};

/** How a map joins a stream. Returns its entries of the moment, and how it leaves. */
export type LiveJoin<Value> = (use: LiveUse) => {
  values: () => ReadonlyMap<string, Value>;
  leave: () => void;
};

/** Opens the stream for the first map, and closes it with the last one. */
export class LiveSource<State extends LiveState> {
  readonly #open: (onDisconnect: OnDisconnect) => Stream;
  readonly #create: () => State;
  #connection: Connection<State> | null = null;

  constructor(open: (onDisconnect: OnDisconnect) => Stream, create: () => State) {
    this.#open = open;
    this.#create = create;
  }

  /** For a map of these values. Calls `changed` soon if the snapshot is already here. */
  view<Value>(valuesOf: (state: State) => ReadonlyMap<string, Value>): LiveJoin<Value> {
    return (use) => {
      if (this.#connection === null || this.#connection.ended)
        this.#connection = new Connection(this.#open, this.#create());
      const connection = this.#connection;
      connection.add(use);
      return { values: () => valuesOf(connection.state), leave: () => connection.remove(use) };
    };
  }
}

class Connection<State extends LiveState> {
  readonly state: State;
  readonly #open: (onDisconnect: OnDisconnect) => Stream;
  readonly #uses = new Set<LiveUse>();
  readonly #stop = new AbortController();
  #stream: Stream;
  #hasSnapshot = false;

  constructor(open: (onDisconnect: OnDisconnect) => Stream, state: State) {
    this.#open = open;
    this.state = state;
    this.#stream = this.#connect();
    void this.#run();
  }

  get ended(): boolean {
    return this.#stop.signal.aborted;
  }

  add(use: LiveUse): void {
    this.#uses.add(use);
    if (this.#hasSnapshot) queueMicrotask(() => this.#notify(use));
  }

  remove(use: LiveUse): void {
    if (!this.#uses.delete(use) || this.#uses.size > 0) return;
    this.#stop.abort();
    this.#stream.close();
  }

  #connect(): Stream {
    return this.#open((lost) => {
      for (const { onDisconnect } of this.#uses) onDisconnect?.(lost);
    });
  }

  async #run(): Promise<void> {
    let failure: unknown = new Error("The stream has ended.");
    try {
      while (await this.#follow()) {
        await sleep(RELOAD_DELAY_MS, this.#stop.signal);
        this.#stream = this.#connect();
      }
    } catch (error) {
      failure = error;
    }
    this.#stop.abort();
    // None is left if the last map has closed the stream.
    const uses = [...this.#uses];
    this.#uses.clear();
    for (const use of uses) use.failed(failure);
  }

  /** Applies messages until the stream ends. Returns whether a new snapshot is needed. */
  async #follow(): Promise<boolean> {
    for await (const message of this.#stream) {
      const applied = this.state.apply(message);
      if (applied === "reload") return true;
      if (applied !== "changed") continue;
      this.#hasSnapshot = true;
      for (const use of this.#uses) this.#notify(use);
    }
    return false;
  }

  #notify(use: LiveUse): void {
    if (!this.#uses.has(use)) return;
    try {
      use.changed();
    } catch (error) {
      this.remove(use);
      use.failed(error);
    }
  }
}
