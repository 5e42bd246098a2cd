/** Extends an owner's index down the chain to a known seal. Each call does a part of a long one. */
import { expr, holds, sql } from "../platform/sql.ts";
import { SealMalformed } from "./column-text.ts";
import type { FooterBlock, SealId } from "./footer.ts";
import { KINDS } from "./sealed-columns.ts";
import { openBlock } from "./seal-format.ts";
import { readSeals } from "./seal-row.ts";
import { readBlock, readFooterAt, SealMissing } from "./seal-store.ts";
import type { StoredBlocks } from "./stored-blocks.ts";

/** Where the archive's objects are, and the database that vouches for them. */
export type ArchiveSource = {
  readonly db: D1Database;
  readonly bucket: Pick<R2Bucket, "get">;
};

export type FollowLimits = {
  /** Footers that one extension reads. */
  readonly footers: number;
  /** Bytes of the blocks that are kept. */
  readonly kept: number;
};

/** Small blocks are kept, because a page would otherwise read an object for a few entries. */
export const FOLLOW_LIMITS: FollowLimits = { footers: 200, kept: 1_024 };

/** No reader asks longer after it has read which seal is the newest. */
const LONGEST_READ_MS = 60_000;

/** The index lacks seals. Further calls complete it. */
export class HistoryBehind extends Error {
  constructor(owner: string) {
    super(`the history of ${owner} is behind`);
    this.name = "HistoryBehind";
  }
}

export class ChainFollower {
  readonly #stored: StoredBlocks;
  readonly #source: ArchiveSource;
  readonly #limits: FollowLimits;
  /** One at a time, because each keeps its place in the index. */
  #extension: Promise<void> | undefined;

  constructor(stored: StoredBlocks, source: ArchiveSource, limits: FollowLimits) {
    this.#stored = stored;
    this.#source = source;
    this.#limits = limits;
  }

  /** Extends the index to this seal. Throws `HistoryBehind` if a call was not enough. */
  async follow(owner: string, newest: SealId): Promise<void> {
    await this.#requireNewest(newest);
    while (!this.#stored.isLinked(newest)) {
      this.#extension ??= this.#extend(owner, newest).finally(() => {
        this.#extension = undefined;
      });
      await this.#extension;
    }
  }

  /**
   * A later seal that is known is one that a restore has lost, or that was stored since the
   * reader asked. Otherwise the database names too old a seal, and the history would be short.
   */
  async #requireNewest({ number }: SealId): Promise<void> {
    const later = this.#stored.linkedAbove(number);
    if (later === undefined) return;
    const known = expr`EXISTS (SELECT 1 FROM journal_seals WHERE number = ${later.number}
      AND epoch = ${later.epoch} AND sealed_at < unixepoch('subsec') * 1000 - ${LONGEST_READ_MS})`;
    if (await holds(this.#source.db, known))
      throw new Error(`seal ${later.number} has later blocks of the owner`);
  }

  /** Continues what an earlier call did not finish. Whether that is done. */
  async resume(): Promise<boolean> {
    const scan = this.#stored.scan();
    try {
      if (scan !== null) await this.follow(scan.owner, scan.top);
      return true;
    } catch (error) {
      if (error instanceof HistoryBehind) return false;
      throw error;
    }
  }

  /** Down the chain to a seal that is linked, or to the first one. Continues what was begun. */
  async #extend(owner: string, newest: SealId): Promise<void> {
    let scan = this.#stored.scan() ?? this.#stored.begin({ owner, top: newest, at: newest });
    for (let footers = 0; scan.at !== null && !this.#stored.isLinked(scan.at); footers++) {
      if (footers === this.#limits.footers) throw new HistoryBehind(owner);
      try {
        scan = this.#stored.add(scan, scan.at, await this.#blocksOf(scan.owner, scan.at));
      } catch (error) {
        // A restore may have lost what was reached. After a failed read the next call continues.
        if (error instanceof SealMalformed || error instanceof SealMissing) this.#stored.end();
        throw error;
      }
    }
    this.#stored.link(scan);
  }

  /** The owner's blocks of a seal, from the seal's footer, and the content of the small ones. */
  async #blocksOf(owner: string, id: SealId) {
    const { db, bucket } = this.#source;
    const [row] = await readSeals(db, sql`WHERE number = ${id.number} AND epoch = ${id.epoch}`);
    if (row === undefined) throw new SealMalformed("the database has no such seal");
    const footer = await readFooterAt(bucket, row);
    const blocks = footer.blocks.filter((block) => block.owner === owner);
    if (blocks.length === 0) throw new SealMalformed("the seal has no block of the owner");
    return Promise.all(
      blocks.map(async (block) => ({ block, content: await this.#contentToKeep(id, block) })),
    );
  }

  async #contentToKeep(id: SealId, block: FooterBlock): Promise<Uint8Array<ArrayBuffer> | null> {
    const kind = KINDS.find((one) => one === block.kind);
    if (kind === undefined || block.length > this.#limits.kept) return null;
    const bytes = await readBlock(this.#source.bucket, id, block);
    // What is kept must be right, because it is not read again.
    openBlock(kind, bytes, block);
    return bytes;
  }
}
