/** What an endpoint's object keeps: events that were not accepted yet, and its last attempts. */
import type { Rendered } from "../../streams/render.ts";

/** With more, the endpoint is disabled. */
export const MAX_WAITING = 10_000;
/** An event that was not accepted for this long disables the endpoint. */
export const MAX_WAITING_MS = 3 * 86_400_000;
const MAX_ATTEMPTS = 100;
/** Storage key of the last event of the stream that was read. */
const POSITION = "position";

export type Waiting = { readonly seq: number; readonly since: number; readonly body: string };
export type AttemptRow = {
  readonly message: string;
  readonly at: number;
  readonly accepted: number;
  readonly status: number | null;
};

export class WaitingEvents {
  readonly #storage: DurableObjectStorage;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    // Whole-number keys, so that a row is one row written.
    storage.sql.exec(`CREATE TABLE IF NOT EXISTS waiting
      (seq INTEGER PRIMARY KEY, since INTEGER NOT NULL, body TEXT NOT NULL) STRICT;
      CREATE TABLE IF NOT EXISTS attempts (n INTEGER PRIMARY KEY, message TEXT NOT NULL,
      at INTEGER NOT NULL, accepted INTEGER NOT NULL, status INTEGER) STRICT`);
  }

  get position(): number | undefined {
    return this.#storage.kv.get<number>(POSITION);
  }

  get count(): number {
    return this.#storage.sql.exec<{ n: number }>("SELECT count(*) AS n FROM waiting").one().n;
  }

  /** The position moves with the events, so none is lost or kept twice. */
  add(events: readonly Rendered[], { since, to }: { since: number; to: number }): void {
    this.#storage.transactionSync(() => {
      for (const { seq, message } of events)
        this.#storage.sql.exec("INSERT INTO waiting VALUES (?, ?, ?)", seq, since, message);
      this.#storage.kv.put(POSITION, to);
    });
  }

  oldest(): Waiting | undefined {
    return this.#storage.sql
      .exec<Waiting>("SELECT seq, since, body FROM waiting ORDER BY seq LIMIT 1")
      .toArray()[0];
  }

  accepted(seq: number): void {
    this.#storage.sql.exec("DELETE FROM waiting WHERE seq = ?", seq);
  }

  forget(): void {
    this.#storage.sql.exec("DELETE FROM waiting");
  }

  attempted({ message, at, accepted, status }: AttemptRow): void {
    const { n } = this.#storage.sql
      .exec<{ n: number }>(
        "INSERT INTO attempts (message, at, accepted, status) VALUES (?, ?, ?, ?) RETURNING n",
        message,
        at,
        accepted,
        status,
      )
      .one();
    this.#storage.sql.exec("DELETE FROM attempts WHERE n <= ?", n - MAX_ATTEMPTS);
  }

  /** Newest first. */
  attempts(): AttemptRow[] {
    return this.#storage.sql
      .exec<AttemptRow>("SELECT message, at, accepted, status FROM attempts ORDER BY n DESC")
      .toArray();
  }
}
