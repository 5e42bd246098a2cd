/** The registration under which the events of one stream are pushed to one object. */
import { now } from "../platform/time.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { all, sql } from "../platform/sql.ts";
import { openStream, type Registration, type Wanted } from "./replay.ts";

/** Storage key of the registration's token. */
const TOKEN = "subscription";
/** Storage key of the instant of the newest token, which stays when the registration ends. */
const NEWEST = "subscription_newest";

/** A registration that was on its way has arrived by then, or never will. */
export const FORGET_AFTER_MS = 3_600_000;

export class Subscription {
  readonly #ctx: DurableObjectState;
  readonly #db: D1Database;
  readonly #stream: string;
  #active = false;

  constructor(ctx: DurableObjectState, db: D1Database, stream: string) {
    this.#ctx = ctx;
    this.#db = db;
    this.#stream = stream;
  }

  /** Whether D1 has answered a registration of this instance, so that events are pushed here. */
  get active(): boolean {
    return this.#active;
  }

  /**
   * Registers and reads the stream's head. The object counts as registered only once D1 has
   * answered: after a lost call nobody may join from memory, because no event would be pushed.
   */
  async open(wanted: Wanted): ReturnType<typeof openStream> {
    const registration = this.#registration();
    const head = await openStream(this.#db, registration, wanted);
    if (this.#ctx.storage.kv.get<string>(TOKEN) === registration.token) this.#active = true;
    // Ended meanwhile, perhaps before the row was written.
    else await this.#end(registration.token);
    return head;
  }

  /** Ends the registration. However late it arrives, the next one has another token. */
  async close(): Promise<void> {
    this.#active = false;
    const token = this.#ctx.storage.kv.get<string>(TOKEN);
    if (token === undefined) return;
    this.#ctx.storage.kv.delete(TOKEN);
    await this.#end(token);
  }

  /** Whether the next token need not be compared with those before. */
  mayForget(): boolean {
    const { kv } = this.#ctx.storage;
    const newest = kv.get<number>(NEWEST) ?? 0;
    return kv.get<string>(TOKEN) === undefined && newest < now() - FORGET_AFTER_MS;
  }

  async #end(token: string): Promise<void> {
    await all(
      this.#db,
      sql`DELETE FROM stream_subscribers WHERE name = ${this.#stream} AND token = ${token}`,
    );
  }

  /**
   * The token is in storage, because an object that wakes up has no memory. It is above all earlier
   * ones, even if the clock went back, so a late registration cannot replace the next one.
   */
  #registration(): Registration {
    let token = this.#ctx.storage.kv.get<string>(TOKEN);
    if (token === undefined) {
      const at = Math.max(now(), (this.#ctx.storage.kv.get<number>(NEWEST) ?? 0) + 1);
      token = uuidv7(at);
      this.#ctx.storage.kv.put(NEWEST, at);
      this.#ctx.storage.kv.put(TOKEN, token);
    }
    return { stream: this.#stream, token };
  }
}
