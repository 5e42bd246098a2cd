/** A Durable Object around one owner's history. Its alarm completes one that is behind or lost. */
import { DurableObject } from "cloudflare:workers";
import type { Sql } from "../platform/sql.ts";
import type { SealId } from "./footer.ts";
import { HistoryBehind, OwnHistory, type HistoryRows } from "./own-history.ts";

/** Others are served in between. */
const PAUSE_MS = 100;

export class History extends DurableObject<Env> {
  readonly #history: OwnHistory;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#history = new OwnHistory(ctx.storage, { db: env.DB, bucket: env.ARCHIVE });
  }

  /** Takes in the seals up to this one, so that the next reader finds them. */
  follow(owner: string, newest: SealId): Promise<void> {
    return this.#completing(this.#history.follow(owner, newest));
  }

  query(owner: string, newest: SealId, statements: readonly Sql[]): Promise<HistoryRows[]> {
    return this.#completing(this.#history.query(owner, newest, statements));
  }

  override async alarm(): Promise<void> {
    if (!(await this.#history.resume())) await this.#continue();
  }

  async #completing<Result>(call: Promise<Result>): Promise<Result> {
    try {
      return await call;
    } catch (error) {
      if (error instanceof HistoryBehind) await this.#continue();
      throw error;
    }
  }

  async #continue(): Promise<void> {
    await this.ctx.storage.setAlarm(Date.now() + PAUSE_MS);
  }
}
