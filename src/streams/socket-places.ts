/**
 * The places of one user's sockets over all streams. The object of the user's account stream counts
 * them, so a user who opens many sockets keeps only that object busy.
 *
 * A place may outlive its socket, because a crash or a deployment ends sockets without notice. When
 * the limit is reached, the streams are asked which sockets still exist.
 */
import { errorFields, log } from "../platform/log.ts";
import { now } from "../platform/time.ts";
import { streamObject } from "./notify.ts";

type Place = { readonly stream: string; readonly takenAt: number };

const PREFIX = "socket:";
/** A place without a socket may belong to an upgrade in flight for this long. */
const UPGRADE_MS = 30_000;
/** A user at the limit must not make us ask the streams all the time. */
const ASK_EVERY_MS = 5_000;

export class SocketPlaces {
  readonly #storage: DurableObjectStorage;
  readonly #env: Env;
  #askedAt = 0;
  #asking: Promise<void> | undefined;

  constructor(storage: DurableObjectStorage, env: Env) {
    this.#storage = storage;
    this.#env = env;
  }

  /** Takes a place for a socket on `stream`. Undefined if all `limit` places are taken. */
  async take(userId: string, stream: string, limit: number): Promise<string | undefined> {
    if (this.#taken().size >= limit) await this.#askStreams(userId);
    // Counted and taken in one turn, so that parallel upgrades see each other.
    if (this.#taken().size >= limit) return undefined;
    const id = crypto.randomUUID();
    const place: Place = { stream, takenAt: now() };
    this.#storage.kv.put(PREFIX + id, place);
    return id;
  }

  leave(id: string): void {
    this.#storage.kv.delete(PREFIX + id);
  }

  #taken(): Map<string, Place> {
    const stored = [...this.#storage.kv.list<Place>({ prefix: PREFIX })];
    return new Map(stored.map(([key, place]) => [key.slice(PREFIX.length), place]));
  }

  #askStreams(userId: string): Promise<void> {
    if (this.#asking !== undefined) return this.#asking;
    if (now() - this.#askedAt < ASK_EVERY_MS) return Promise.resolve();
    this.#askedAt = now();
    const byStream = Map.groupBy(this.#taken(), ([, { stream }]) => stream);
    this.#asking = Promise.all(
      [...byStream].map(([stream, places]) => this.#ask(userId, stream, places)),
    ).then(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  /** Frees the places whose socket is gone. Never throws. */
  async #ask(userId: string, stream: string, places: readonly (readonly [string, Place])[]) {
    try {
      const open = new Set(await streamObject(this.#env, stream).placesOf(userId));
      const settled = now() - UPGRADE_MS;
      for (const [id, { takenAt }] of places)
        if (!open.has(id) && takenAt < settled) this.leave(id);
    } catch (error) {
      log("warn", "streams.places_unknown", { stream, ...errorFields(error) });
    }
  }
}
