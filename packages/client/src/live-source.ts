/** The account stream that the live maps of a client share. */
import { LiveAccount } from "./live-account.ts";
import type { Stream, StreamOptions } from "./stream.ts";
import { sleep } from "./transport.ts";

/** How long to wait before a new snapshot, so that many gaps cost one. */
const RELOAD_DELAY_MS = 1_000;

type OnDisconnect = NonNullable<StreamOptions["onDisconnect"]>;

/** A map, as far as the stream knows it. */
export type LiveUse = {
  /** The account may have changed. An error that it throws ends this use. */
  changed: () => void;
  /** The stream has ended. The account does not change any more. */
  failed: (error: unknown) => void;
  onDisconnect?: OnDisconnect | undefined;
};

/** Opens the stream for the first map, and closes it with the last one. */
export class LiveSource {
  readonly #open: (onDisconnect: OnDisconnect) => Stream;
  #connection: Connection | null = null;

  constructor(open: (onDisconnect: OnDisconnect) => Stream) {
    this.#open = open;
  }

  /** Calls `changed` soon if the snapshot is already here. Returns the account, which is shared. */
  join(use: LiveUse): { account: LiveAccount; leave: () => void } {
    if (this.#connection === null || this.#connection.ended)
      this.#connection = new Connection(this.#open);
    const connection = this.#connection;
    connection.add(use);
    return { account: connection.account, leave: () => connection.remove(use) };
  }
}

class Connection {
  readonly account = new LiveAccount();
  readonly #open: (onDisconnect: OnDisconnect) => Stream;
  readonly #uses = new Set<LiveUse>();
  readonly #stop = new AbortController();
  #stream: Stream;
  #hasSnapshot = false;

  constructor(open: (onDisconnect: OnDisconnect) => Stream) {
    this.#open = open;
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
    let failure: unknown = new Error("The account stream has ended.");
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
      const applied = this.account.apply(message);
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
