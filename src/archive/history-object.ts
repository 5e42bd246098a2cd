/** A Durable Object around one owner's index of blocks. Its alarm completes a lost index. */
import { DurableObject } from "cloudflare:workers";
import {
  BlockIndex,
  type ColdRequest,
  type RecordsPage,
  type RecordsRequest,
} from "./block-index.ts";
import type { ColdRows } from "../ledger/cold-entries.ts";
import { HistoryBehind } from "./follow-chain.ts";
import type { SealId } from "./footer.ts";

/** Others are served in between. */
const PAUSE_MS = 100;

export class History extends DurableObject<Env> {
  readonly #index: BlockIndex;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#index = new BlockIndex(ctx.storage.sql, { db: env.DB, bucket: env.ARCHIVE });
  }

  /** Extends the index, so that the next reader finds it complete. */
  follow(owner: string, newest: SealId): Promise<void> {
    return this.#completing(this.#index.chain.follow(owner, newest));
  }

  page(owner: string, request: ColdRequest): Promise<ColdRows> {
    return this.#completing(this.#index.page(owner, request));
  }

  records(owner: string, request: RecordsRequest): Promise<RecordsPage> {
    return this.#completing(this.#index.records(owner, request));
  }

  count(owner: string, request: Omit<ColdRequest, "limit">): Promise<number> {
    return this.#completing(this.#index.count(owner, request));
  }

  override async alarm(): Promise<void> {
    if (!(await this.#index.chain.resume())) await this.#continue();
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
