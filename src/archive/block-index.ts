/**
 * An index of one owner's blocks in the archive. It can be rebuilt from the archive and is never the
 * only copy.
 *
 * The database names the last seal with a block of the owner, and each block names the one
 * before. So the index is complete if it contains the chain from that seal on, and a seal that a
 * restore has lost is in no chain.
 */
import { first, sql } from "../platform/sql.ts";
import { SealMalformed } from "./bytes.ts";
import { type ColdFilter, entriesOf, mayContain } from "./cold-page.ts";
import type { ColdRow } from "../ledger/cold-entries.ts";
import type { OwnerBlock, SealId } from "./footer.ts";
import { readBlock, readFooterAt } from "./seal-store.ts";

/** Footers that one call reads at most. A call that needs more fails, and the next one continues. */
const FOOTERS_PER_CALL = 200;
/** Blocks that one call reads at most. The caller continues below the last one. */
const BLOCKS_PER_CALL = 50;

/** A block of the owner, and the seal that contains it. */
type Entry = { readonly id: SealId; readonly block: OwnerBlock };

export type ColdPage = {
  readonly rows: readonly ColdRow[];
  /** Continue below this position; null if nothing is left. */
  readonly before: bigint | null;
};

export type ColdRequest = {
  readonly newest: SealId;
  readonly filter: ColdFilter;
  readonly before: bigint;
  readonly limit: number;
};

/** Where the archive's objects are, and the database that vouches for them. */
export type ArchiveSource = {
  readonly db: D1Database;
  readonly bucket: Pick<R2Bucket, "get">;
};

export class BlockIndex {
  readonly #sql: SqlStorage;
  readonly #source: ArchiveSource;

  constructor(storage: SqlStorage, source: ArchiveSource) {
    this.#sql = storage;
    this.#source = source;
    // `linked`: the chain from this block to the first one is complete.
    storage.exec(`CREATE TABLE IF NOT EXISTS blocks (
      number INTEGER NOT NULL, epoch INTEGER NOT NULL, first_entry INTEGER NOT NULL,
      entries INTEGER NOT NULL, linked INTEGER NOT NULL, block TEXT NOT NULL,
      PRIMARY KEY (number, epoch))`);
  }

  async page(owner: string, { newest, filter, before, limit }: ColdRequest): Promise<ColdPage> {
    await this.follow(owner, newest);
    const rows: ColdRow[] = [];
    let opened = 0;
    for (const { id, block } of this.#blocksBelow(newest, before)) {
      if (!mayContain(block, filter, before)) continue;
      const content = await readBlock(this.#source.bucket, id, block);
      rows.push(...entriesOf(content, filter, before));
      if (rows.length >= limit) return { rows: rows.slice(0, limit), before: null };
      if (++opened === BLOCKS_PER_CALL) return { rows, before: BigInt(block.firstEntry) };
    }
    return { rows, before: null };
  }

  /** The number of entries in the blocks that may contain one that fits. */
  async count(
    owner: string,
    { newest, filter, before }: Omit<ColdRequest, "limit">,
  ): Promise<number> {
    await this.follow(owner, newest);
    let entries = 0;
    for (const { block } of this.#blocksBelow(newest, before))
      if (mayContain(block, filter, before)) entries += block.entries;
    return entries;
  }

  /** Extends the index to this seal. A repeat continues what a failed call has read. */
  async follow(owner: string, newest: SealId): Promise<void> {
    let read = 0;
    let next: SealId | null = newest;
    while (next !== null && !this.#has(next, true)) {
      if (!this.#has(next, false)) {
        if (read++ === FOOTERS_PER_CALL) throw new Error(`the history of ${owner} is behind`);
        this.#add(next, await this.#blockOf(owner, next));
      }
      next = this.#previousOf(next);
    }
    // Everything from here to `newest` is linked now. Blocks of lost seals are not in the chain.
    this.#link(newest, next);
  }

  #has({ number, epoch }: SealId, linked: boolean): boolean {
    const found = this.#sql.exec(
      "SELECT 1 FROM blocks WHERE number = ? AND epoch = ? AND linked >= ?",
      number,
      epoch,
      linked ? 1 : 0,
    );
    return found.toArray().length > 0;
  }

  #add({ number, epoch }: SealId, block: OwnerBlock): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?, 0, ?)",
      number,
      epoch,
      block.firstEntry,
      block.entries,
      toText(block),
    );
  }

  #previousOf({ number, epoch }: SealId): SealId | null {
    const rows = this.#sql
      .exec<{ block: string }>(
        "SELECT block FROM blocks WHERE number = ? AND epoch = ?",
        number,
        epoch,
      )
      .toArray();
    return fromText(rows[0]?.block ?? "null")?.previous ?? null;
  }

  #link(newest: SealId, known: SealId | null): void {
    for (let at: SealId | null = newest; at !== null; at = this.#previousOf(at)) {
      if (at.number === known?.number) return;
      const { number, epoch } = at;
      this.#sql.exec("DELETE FROM blocks WHERE number = ? AND epoch <> ?", number, epoch);
      this.#sql.exec("UPDATE blocks SET linked = 1 WHERE number = ?", number);
    }
  }

  /** The owner's chain from `newest` on, below a position, the newest first. */
  *#blocksBelow(newest: SealId, before: bigint): Generator<Entry> {
    for (let at: SealId | null = newest; at !== null;) {
      const rows = this.#sql
        .exec<{ block: string }>(
          "SELECT block FROM blocks WHERE number = ? AND epoch = ?",
          at.number,
          at.epoch,
        )
        .toArray();
      const block = fromText(rows[0]?.block ?? "null");
      if (block === null) throw new Error("the chain of blocks is broken");
      if (BigInt(block.firstEntry) < before) yield { id: at, block };
      at = block.previous;
    }
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

/** Amounts as text, because JSON has no integers of that size. */
function toText(block: OwnerBlock): string {
  return JSON.stringify({
    ...block,
    smallest: String(block.smallest),
    largest: String(block.largest),
  });
}

function fromText(text: string): OwnerBlock | null {
  // Safe cast: only `toText` writes these texts.
  const stored = JSON.parse(text) as (OwnerBlock & { smallest: string; largest: string }) | null;
  if (stored === null) return null;
  return { ...stored, smallest: BigInt(stored.smallest), largest: BigInt(stored.largest) };
}
