/** What the sockets of one object have been sent, and the last messages for reconnecting ones. */
import { errorFields, log } from "../platform/log.ts";
import { all, expr, scalar, sql } from "../platform/sql.ts";
import type { Rendered } from "./render.ts";

/** Messages kept in memory, so that reconnecting subscribers do not queue in D1 ahead of money. */
const MAX_RECENT = 1_000;

export class SentPosition {
  readonly #ctx: DurableObjectState;
  readonly #db: D1Database;
  readonly #stream: string;
  #last: number | undefined;
  /** The last messages, up to `#last` without a gap. */
  #recent: Rendered[] = [];
  #acknowledging = false;

  constructor(ctx: DurableObjectState, db: D1Database, stream: string) {
    this.#ctx = ctx;
    this.#db = db;
    this.#stream = stream;
  }

  /** Undefined after hibernation, until `read`. */
  get last(): number | undefined {
    return this.#last;
  }

  async read(): Promise<number> {
    if (this.#last !== undefined) return this.#last;
    const pong = this.#ctx.getWebSocketAutoResponse()?.response;
    const stored = expr`SELECT pushed_seq FROM streams WHERE name = ${this.#stream}`;
    // Safe cast: `moveTo` writes the pong.
    this.#last =
      pong === undefined
        ? ((await scalar<number | null>(this.#db, stored)) ?? 0)
        : (JSON.parse(pong) as { seq: number }).seq;
    return this.#last;
  }

  /** The automatic pong carries the position. The runtime keeps it while the object hibernates. */
  moveTo(seq: number): void {
    this.#last = seq;
    this.#ctx.setWebSocketAutoResponse(
      new WebSocketRequestResponsePair("ping", JSON.stringify({ type: "pong", seq })),
    );
  }

  /** Adds a message that all subscribers have received, the next after the last. */
  sent(message: Rendered): void {
    this.#recent.push(message);
    if (this.#recent.length > 2 * MAX_RECENT) this.#recent = this.#recent.slice(-MAX_RECENT);
    this.moveTo(message.seq);
  }

  /** The messages after `since`. Undefined when memory does not reach back so far. */
  recentAfter(since: number): readonly Rendered[] | undefined {
    const last = this.#last;
    if (last === undefined || since > last) return undefined;
    if (since + 1 < (this.#recent[0]?.seq ?? last + 1)) return undefined;
    return this.#recent.filter(({ seq }) => seq > since);
  }

  forgetRecent(): void {
    this.#recent = [];
  }

  /** As `moveTo`, without the messages before. */
  startAt(seq: number): void {
    this.forgetRecent();
    this.moveTo(seq);
  }

  /** Writes the position to D1, for cron. Does nothing while a write is on its way. */
  acknowledgeSoon(): void {
    if (this.#acknowledging) return;
    this.#acknowledging = true;
    this.#ctx.waitUntil(this.acknowledge());
  }

  /** Never throws. */
  async acknowledge(): Promise<void> {
    // A short wait lets one write acknowledge a burst of pushes.
    await scheduler.wait(200);
    this.#acknowledging = false;
    try {
      const seq = await this.read();
      await all(
        this.#db,
        sql`UPDATE streams SET pushed_seq = ${seq} WHERE name = ${this.#stream}
          AND pushed_seq < ${seq}`,
      );
    } catch (error) {
      log("warn", "streams.acknowledge_failed", { stream: this.#stream, ...errorFields(error) });
    }
  }
}
