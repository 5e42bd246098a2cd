/** Maps that a stream keeps current. */
import { deferred } from "./deferred.ts";
import { LiveAccount } from "./live-account.ts";
import type { Stream } from "./stream.ts";
import { sleep } from "./transport.ts";

/** How long to wait before a new snapshot, so that many gaps cost one. */
const RELOAD_DELAY_MS = 1_000;

/** What a live map shows of the account. */
export type LiveView<Key, Value> = {
  keyOf: (key: Key) => string;
  valuesOf: (account: LiveAccount) => ReadonlyMap<string, Value>;
};

/**
 * Own records, kept current by an account stream. Created by `client.orders` and
 * `client.balances`. Each map uses one socket. While the connection is lost, it shows the last
 * known state; after the reconnection, it applies what was missed.
 *
 * @example
 * ```ts
 * const orders = client.orders();
 * await orders.ready();
 * for (const order of orders)
 *   console.log("quote_id" in order ? `quote at ${order.price}` : `request ${order.request_id}`);
 * orders.close();
 * ```
 */
export class Live<Key, Value> implements Iterable<Value> {
  readonly #open: () => Stream;
  readonly #view: LiveView<Key, Value>;
  readonly #listeners = new Set<() => void>();
  readonly #ready = deferred<void>();
  readonly #ended = deferred<void>();
  readonly #stop = new AbortController();
  readonly #account = new LiveAccount();
  #stream: Stream | null = null;

  constructor(open: () => Stream, view: LiveView<Key, Value>) {
    this.#open = open;
    this.#view = view;
    // Without calls of `ready` and `ended`, their rejections would be unhandled.
    this.#ready.promise.catch(() => {});
    this.#ended.promise.catch(() => {});
  }

  /**
   * Connects, and resolves when the first snapshot has arrived. Retries like `Stream.ready` and
   * throws the same `Problem`s. Throws `Error` if the map is closed before.
   *
   * @example
   * ```ts
   * const balances = client.balances();
   * await balances.ready();
   * ```
   */
  ready(): Promise<void> {
    if (this.#stream === null && !this.#stop.signal.aborted) {
      this.#stream = this.#open();
      void this.#run(this.#stream);
    }
    return this.#ready.promise;
  }

  /**
   * Resolves when the map is closed. Throws the `Problem` that ended its stream, for example after
   * the key was revoked. From then on the map does not change.
   *
   * @example
   * ```ts
   * const orders = client.orders();
   * orders.ended().catch((error) => console.error("no longer current", error));
   * ```
   */
  ended(): Promise<void> {
    return this.#ended.promise;
  }

  /**
   * Returns the entry of a key, or undefined if there is none.
   *
   * @example
   * ```ts
   * const balances = client.balances();
   * await balances.ready();
   * console.log(balances.get(null)?.balance, "units of USDC");
   * console.log(balances.get({ venue_id: "venue_one", asset_id: "0x1" })?.pending_balance);
   * ```
   */
  get(key: Key): Value | undefined {
    return this.#view.valuesOf(this.#account).get(this.#view.keyOf(key));
  }

  /**
   * Number of entries.
   *
   * @example
   * ```ts
   * console.log(client.orders().size);
   * ```
   */
  get size(): number {
    return this.#view.valuesOf(this.#account).size;
  }

  /**
   * Iterates over the entries of this moment.
   *
   * @example
   * ```ts
   * const balances = client.balances();
   * await balances.ready();
   * for (const { asset_id, balance } of balances) console.log(asset_id ?? "USDC", balance);
   * ```
   */
  [Symbol.iterator](): Iterator<Value> {
    return [...this.#view.valuesOf(this.#account).values()].values();
  }

  /**
   * Calls `listener` after each message that may have changed an entry. Returns a function that
   * removes it. An error that `listener` throws ends the map.
   *
   * @example
   * ```ts
   * const orders = client.orders();
   * const stopListening = orders.onChange(() => console.log(orders.size, "open"));
   * await orders.ready();
   * stopListening();
   * ```
   */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Closes the stream. The entries remain readable.
   *
   * @example
   * ```ts
   * const orders = client.orders();
   * orders.close();
   * ```
   */
  close(): void {
    this.#stop.abort();
    this.#stream?.close();
    this.#ready.reject(new Error("The live map was closed before its first snapshot."));
    this.#ended.resolve();
  }

  async #run(first: Stream): Promise<void> {
    try {
      for (let stream = first; await this.#follow(stream); stream = this.#open())
        await sleep(RELOAD_DELAY_MS, this.#stop.signal);
    } catch (error) {
      // Has no effect if `close` only interrupted the sleep.
      this.#ready.reject(error);
      this.#ended.reject(error);
    }
  }

  /** Applies messages until the stream ends. Returns whether a new snapshot is needed. */
  async #follow(stream: Stream): Promise<boolean> {
    this.#stream = stream;
    for await (const message of stream) {
      const applied = this.#account.apply(message);
      if (applied === "reload") return true;
      if (applied !== "changed") continue;
      this.#ready.resolve();
      for (const listener of this.#listeners) listener();
    }
    return false;
  }
}
