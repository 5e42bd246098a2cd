/**
 * The places of one user's sockets over all streams. The object of the user's account stream counts
 * them, so a user who opens many sockets keeps only that object busy.
 *
 * A place may outlive its socket, because a crash or a deployment ends sockets without notice. When
 * the limit is reached, the streams are asked which sockets still exist and when each was last
 * heard. The one that has been silent longest gives way, because its network may have vanished,
 * which nobody would report.
 */
import { errorFields, log, logged } from "../platform/log.ts";
import { now } from "../platform/time.ts";
import type { Heard } from "./open-sockets.ts";
import { streamObject } from "./notify.ts";

type Place = { readonly stream: string; readonly takenAt: number };
type Silent = Heard & { readonly stream: string };

const PREFIX = "socket:";
/** A place without a socket may belong to an upgrade in flight for this long. */
const UPGRADE_MS = 30_000;
/** A user at the limit must not make us ask the streams all the time. */
const ASK_EVERY_MS = 5_000;
/** A socket that has sent no frame for this long may give way. Our clients ping every 15 s. */
const GIVES_WAY_MS = 120_000;

export class SocketPlaces {
  readonly #storage: DurableObjectStorage;
  readonly #env: Env;
  #askedAt = 0;
  #asking: Promise<void> | undefined;
  /** As of the last time that the streams were asked, the longest silent first. */
  #silent: Silent[] = [];

  constructor(storage: DurableObjectStorage, env: Env) {
    this.#storage = storage;
    this.#env = env;
  }

  /** Takes a place for a socket on `stream`. Undefined if all `limit` places are taken. */
  async take(userId: string, stream: string, limit: number): Promise<string | undefined> {
    if (this.#taken().size >= limit) await this.#askStreams(userId);
    if (this.#taken().size >= limit) await this.#makeRoom(userId);
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
    ).then((silent) => {
      this.#silent = silent.flat().toSorted((one, other) => one.heardAt - other.heardAt);
      this.#asking = undefined;
    });
    return this.#asking;
  }

  /** Frees the places whose socket is gone. Returns the silent ones. Never throws. */
  async #ask(
    userId: string,
    stream: string,
    places: readonly (readonly [string, Place])[],
  ): Promise<Silent[]> {
    try {
      const heard: Heard[] = await streamObject(this.#env, stream).heardOf(userId);
      const open = new Set(heard.map(({ place }) => place));
      const settled = now() - UPGRADE_MS;
      for (const [id, { takenAt }] of places)
        if (!open.has(id) && takenAt < settled) this.leave(id);
      return heard
        .filter(({ heardAt }) => heardAt <= now() - GIVES_WAY_MS)
        .map((it) => ({ ...it, stream }));
    } catch (error) {
      log("warn", "streams.places_unknown", { stream, ...errorFields(error) });
      return [];
    }
  }

  /** Closes the socket that has been silent longest, and frees its place. Never throws. */
  async #makeRoom(userId: string): Promise<void> {
    for (let it = this.#silent.shift(); it !== undefined; it = this.#silent.shift()) {
      const { place, stream } = it;
      const before = now() - GIVES_WAY_MS;
      const closed = streamObject(this.#env, stream).closeSilent(userId, place, before);
      const failed = logged("warn", "streams.place_not_freed", { stream });
      if ((await closed.catch(failed)) === true) return this.leave(place);
    }
  }
}
