/** Maps that streams keep current. */
import { deferred } from "./deferred.ts";
import type { LiveJoin, LiveUse } from "./live-source.ts";

/**
 * Records that a stream keeps current. Created by `client.orders` and `client.balances`, which
 * share one socket of a client, and by `client.requests`. While the connection is lost, they show
 * the last known state; after the reconnection, they apply what was missed.
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
  readonly #join: LiveJoin<Value>;
  readonly #keyOf: (key: Key) => string;
  readonly #onDisconnect: LiveUse["onDisconnect"];
  readonly #listeners = new Set<() => void>();
  readonly #ready = deferred<void>();
  readonly #ended = deferred<void>();
  #shared: ReturnType<LiveJoin<Value>> | null = null;
  /** Set once the map is closed. */
  #last: ReadonlyMap<string, Value> | null = null;

  constructor(
    join: LiveJoin<Value>,
    keyOf: (key: Key) => string,
    onDisconnect?: LiveUse["onDisconnect"],
  ) {
    this.#join = join;
    this.#keyOf = keyOf;
    this.#onDisconnect = onDisconnect;
    // Without calls of `ready` and `ended`, their rejections would be unhandled.
    this.#ready.promise.catch(() => {});
    this.#ended.promise.catch(() => {});
  }

  /**
   * Connects unless another map of the client has, and resolves when there is a snapshot. Retries
   * like `Stream.ready` and throws the same `Problem`s. Throws `Error` if the map is closed before.
   *
   * @example
   * ```ts
   * const balances = client.balances();
   * await balances.ready();
   * ```
   */
  ready(): Promise<void> {
    if (this.#shared === null && this.#last === null)
      this.#shared = this.#join({
        changed: () => this.#changed(),
        failed: (error) => this.#end(error),
        onDisconnect: this.#onDisconnect,
      });
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
    return this.#values().get(this.#keyOf(key));
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
    return this.#values().size;
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
    return [...this.#values().values()].values();
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
   * Ends the map. The entries remain readable. The last map closes the stream.
   *
   * @example
   * ```ts
   * const orders = client.orders();
   * orders.close();
   * ```
   */
  close(): void {
    this.#ended.resolve();
    this.#end(new Error("The live map was closed before its first snapshot."));
  }

  #changed(): void {
    this.#ready.resolve();
    for (const listener of this.#listeners) listener();
  }

  #end(error: unknown): void {
    // A copy, because other maps may still follow the account.
    this.#last ??= new Map(this.#values());
    this.#shared?.leave();
    this.#ready.reject(error);
    this.#ended.reject(error);
  }

  #values(): ReadonlyMap<string, Value> {
    if (this.#last !== null) return this.#last;
    return this.#shared === null ? new Map() : this.#shared.values();
  }
}
