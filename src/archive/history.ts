/** The history of one owner: a Durable Object around the index of the owner's blocks. */
import { DurableObject } from "cloudflare:workers";
import {
  BlockIndex,
  type ColdPage,
  type ColdRequest,
  type FindRequest,
  type Found,
  type RecordsPage,
  type RecordsRequest,
} from "./block-index.ts";
import type { SealId } from "./footer.ts";

export class History extends DurableObject<Env> {
  readonly #index: BlockIndex;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#index = new BlockIndex(ctx.storage.sql, { db: env.DB, bucket: env.ARCHIVE });
  }

  /** Extends the index, so that the next reader finds it complete. */
  follow(owner: string, newest: SealId): Promise<void> {
    return this.#index.follow(owner, newest);
  }

  page(owner: string, request: ColdRequest): Promise<ColdPage> {
    return this.#index.page(owner, request);
  }

  records(owner: string, request: RecordsRequest): Promise<RecordsPage> {
    return this.#index.records(owner, request);
  }

  find(owner: string, request: FindRequest): Promise<Found> {
    return this.#index.find(owner, request);
  }

  count(owner: string, request: Omit<ColdRequest, "limit">): Promise<number> {
    return this.#index.count(owner, request);
  }
}
