/**
 * Extends the index of one owner's blocks down the chain, to a block that is known. An index that
 * was lost needs all of them, so each call does a part and keeps its place.
 */
import { first, sql } from "../platform/sql.ts";
import { SealMalformed } from "./bytes.ts";
import type { OwnerBlock, SealId } from "./footer.ts";
import { openEntries } from "./seal-format.ts";
import { readBlockBytes, readFooterAt, SealMissing } from "./seal-store.ts";
import type { StoredBlocks, Walk } from "./stored-blocks.ts";

/** Where the archive's objects are, and the database that vouches for them. */
export type ArchiveSource = {
  readonly db: D1Database;
  readonly bucket: Pick<R2Bucket, "get">;
};

export type FollowLimits = {
  /** Footers that one call reads, and blocks that it walks over or links. */
  readonly footers: number;
  readonly followed: number;
  /** Bytes of the blocks that are kept. */
  readonly kept: number;
};

/**
 * Small blocks are kept in the index, because a page of few entries a block would otherwise read an
 * object for each. A larger one has some twenty entries or more.
 */
export const FOLLOW_LIMITS: FollowLimits = { footers: 200, followed: 10_000, kept: 512 };

/** No reader asks longer after it has read which seal is the newest. */
const LONGEST_READ_MS = 60_000;

/** The index lacks blocks. Further calls complete it. */
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

  constructor(stored: StoredBlocks, source: ArchiveSource, limits: FollowLimits) {
    this.#stored = stored;
    this.#source = source;
    this.#limits = limits;
  }

  /**
   * Extends the index to this seal. A call does so much, and throws `HistoryBehind` if more is
   * left. The next one continues.
   */
  async follow(owner: string, newest: SealId): Promise<void> {
    await this.#requireNewest(newest);
    const left = { footers: this.#limits.footers, blocks: this.#limits.followed };
    while (!this.#stored.has(newest, true)) {
      const kept = this.#stored.walk();
      if (kept === null) this.#stored.unlinkAbove(newest);
      await this.#walk(kept ?? { owner, top: newest, at: newest }, left);
    }
  }

  /**
   * A later block that is known is of a seal that a restore has lost, or that was stored since the
   * reader asked. Otherwise the database names too old a seal, and the history would be short.
   */
  async #requireNewest({ number }: SealId): Promise<void> {
    const later = this.#stored.linkedAbove(number);
    if (later === undefined) return;
    const row = await first<{ known: number }>(
      this.#source.db,
      sql`SELECT 1 AS known FROM journal_seals WHERE number = ${later.number}
        AND epoch = ${later.epoch} AND sealed_at < unixepoch('subsec') * 1000 - ${LONGEST_READ_MS}`,
    );
    if (row !== undefined) throw new Error(`seal ${later.number} has a later block of the owner`);
  }

  /** Continues what a call left. Whether that is done. */
  async resume(): Promise<boolean> {
    const walk = this.#stored.walk();
    try {
      if (walk !== null) await this.follow(walk.owner, walk.top);
      return true;
    } catch (error) {
      if (error instanceof HistoryBehind) return false;
      throw error;
    }
  }

  /** Down the chain to a block that is linked, or to the first one, then up again. */
  async #walk(walk: Walk, left: { footers: number; blocks: number }): Promise<void> {
    const { owner, top } = walk;
    let { at } = walk;
    const pause = () => {
      this.#stored.keepWalk({ owner, top, at });
      return new HistoryBehind(owner);
    };
    try {
      while (at !== null && !this.#stored.has(at, true)) {
        if (left.blocks-- === 0) throw pause();
        if (!this.#stored.has(at, false)) {
          if (left.footers-- === 0) throw pause();
          const block = await this.#blockOf(owner, at);
          this.#stored.add(at, block, await this.#contentToKeep(at, block));
        }
        const previous = this.#stored.previousOf(at);
        this.#stored.deleteBetween(previous, at);
        at = previous;
      }
      const linked = this.#stored.link({ owner, top, at }, this.#limits.followed);
      if (linked.number < top.number) {
        at = linked;
        throw pause();
      }
    } catch (error) {
      // A restore may have lost what an earlier call walked to. Its blocks stay. After a read that
      // failed the next call continues.
      if (error instanceof SealMalformed || error instanceof SealMissing) this.#stored.endWalk();
      throw error;
    }
    this.#stored.endWalk();
  }

  async #contentToKeep(id: SealId, block: OwnerBlock): Promise<Uint8Array | null> {
    if (block.length > this.#limits.kept) return null;
    const bytes = await readBlockBytes(this.#source.bucket, id, block);
    // What is kept must be right, because it is not read again.
    await openEntries(bytes, block);
    return bytes;
  }

  /** The owner's block in a seal, from the seal's footer, which the database vouches for. */
  async #blockOf(owner: string, id: SealId): Promise<OwnerBlock> {
    const { footer, sha256 } = await readFooterAt(this.#source.bucket, id);
    const row = await first<{ sha256: string }>(
      this.#source.db,
      sql`SELECT lower(hex(sha256)) AS sha256 FROM journal_seals
        WHERE number = ${id.number} AND epoch = ${id.epoch}`,
    );
    if (row?.sha256 !== sha256) throw new SealMalformed("the footer is not what the row states");
    const block = footer.blocks.find((candidate) => candidate.owner === owner);
    if (block === undefined) throw new SealMalformed("the seal has no block of the owner");
    return block;
  }
}
