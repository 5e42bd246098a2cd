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
import {
  CLOCK_MARGIN_MS,
  type ColdFilter,
  entriesOf,
  mayContain,
  timeOf,
  wantedAssets,
} from "./cold-page.ts";
import type { ColdRow } from "../ledger/cold-entries.ts";
import { amountBounds, hasAmounts } from "../ledger/filter.ts";
import type { OwnerBlock, SealId } from "./footer.ts";
import {
  isOlder,
  positionOf,
  type RecordFilter,
  type RecordKey,
  type RecordPosition,
  recordsIn,
  recordWith,
  type SealedRecord,
} from "./record-page.ts";
import { readAhead } from "./read-ahead.ts";
import { type BlockPlace, openBlock, openEntries } from "./seal-format.ts";
import { readBlockBytes, readFooterAt } from "./seal-store.ts";
import { type Entry, StoredBlocks } from "./stored-blocks.ts";
import { hasAmount, hasMark } from "./summary.ts";

/** Footers that one call reads at most. A call that needs more fails, and the next one continues. */
const FOOTERS_PER_CALL = 200;
/** Blocks that one call reads at most. The caller continues below the last one. */
const BLOCKS_PER_CALL = 50;
/** Blocks that one call examines at most by what the index states of them. */
const EXAMINED_PER_CALL = 5_000;

/**
 * Blocks of at most so many bytes are kept in the index, because a page of few entries a block would
 * otherwise read an object for each. A larger one has some twenty entries or more.
 */
const KEPT_BYTES = 512;

/** A quote ends, and a match is settled, at most so long after its id was made. */
const SOON_MS = 600_000;

export type ColdPage = {
  readonly rows: readonly ColdRow[];
  /** Continue below this position; null if nothing is left. */
  readonly before: bigint | null;
};

export type RecordsRequest = {
  readonly newest: SealId;
  readonly filter: RecordFilter;
  /** Records after this position. Null: from the first one. */
  readonly after: RecordPosition | null;
  readonly limit: number;
  /** Where the last call ended. */
  readonly from: BlockPosition | null;
};

/** Blocks by the newest record that they may contain, then by their seal. */
type BlockPosition = { readonly at: number; readonly number: number };

export type RecordsPage = {
  /** At most `limit`, in the order of the list. */
  readonly records: readonly SealedRecord[];
  /** The next block that may contain more; null if none does. */
  readonly next: BlockPosition | null;
};

export type FindRequest = {
  readonly newest: SealId;
  readonly key: RecordKey;
  /** When the record was opened or made, at the earliest and at the latest. */
  readonly between: readonly [number, number];
  /** Where the last call ended. */
  readonly above: number;
};

export type Found = {
  readonly record: SealedRecord | null;
  /** Continue above this seal; null if nothing is left. */
  readonly above: number | null;
};

/** Where an examination of blocks ended before the last one; null if it did not. */
type Examination = { endedAt: bigint | null };

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

/** Blocks that one call opens, and examines, at most, and the bytes of those kept. For tests. */
export type IndexLimits = {
  readonly opened: number;
  readonly examined: number;
  readonly kept: number;
};

export class BlockIndex {
  readonly #stored: StoredBlocks;
  readonly #source: ArchiveSource;
  readonly #limits: IndexLimits;

  constructor(storage: SqlStorage, source: ArchiveSource, limits: Partial<IndexLimits> = {}) {
    this.#stored = new StoredBlocks(storage);
    this.#source = source;
    const usual = { opened: BLOCKS_PER_CALL, examined: EXAMINED_PER_CALL, kept: KEPT_BYTES };
    this.#limits = { ...usual, ...limits };
  }

  /** A part of a list of records. The caller merges the parts and continues at `next`. */
  async records(owner: string, request: RecordsRequest): Promise<RecordsPage> {
    const { newest, filter, after, limit } = request;
    await this.follow(owner, newest);
    let records: SealedRecord[] = [];
    const blocks = this.#blocksByRecord(request);
    const opened = blocks.slice(0, this.#limits.opened);
    for (const { item, content } of this.#read(opened, openBlock)) {
      const { lastAt } = item.block[filter.kind];
      const last = records[limit - 1];
      const isFull = last !== undefined && positionOf(last).at > lastAt;
      if (isFull) return { records, next: { at: lastAt, number: item.id.number } };
      records = records
        .concat(recordsIn(await content, owner, filter, after))
        .toSorted((a, b) => (isOlder(positionOf(a), positionOf(b)) ? 1 : -1))
        .slice(0, limit);
    }
    const rest = blocks[this.#limits.opened];
    return {
      records,
      next:
        rest === undefined ? null : { at: rest.block[filter.kind].lastAt, number: rest.id.number },
    };
  }

  /** One record. The oldest blocks first, because most records end soon. */
  async find(owner: string, { newest, key, between, above }: FindRequest): Promise<Found> {
    await this.follow(owner, newest);
    const { opened, examined } = this.#limits;
    const entries = this.#stored.withRecords(
      "z.number > ? AND z.first_at <= ? AND z.last_at >= ? ORDER BY z.number LIMIT ?",
      { kind: key.kind, newest },
      [above, between[1], between[0], examined],
    );
    const named = entries.filter(
      ({ id }) => key.by !== "request_id" || hasMark(this.#stored.requestMarksOf(id), key.id),
    );
    const read = named.slice(0, opened);
    for (const { content } of this.#read(read, openBlock)) {
      const record = recordWith(await content, key);
      if (record !== undefined) return { record, above: null };
    }
    if (named.length > opened) return { record: null, above: read.at(-1)?.id.number ?? null };
    const last = entries.length < examined ? undefined : entries.at(-1);
    return { record: null, above: last?.id.number ?? null };
  }

  /** The blocks of a list from a position on, and one more than a call opens. */
  #blocksByRecord({ newest, filter, after, from }: RecordsRequest): Entry[] {
    const until = Math.min(after?.at ?? Number.MAX_SAFE_INTEGER, filter.to ?? Infinity);
    const start = from ?? { at: Number.MAX_SAFE_INTEGER, number: Number.MAX_SAFE_INTEGER };
    return this.#stored.withRecords(
      `z.first_at <= ? AND z.last_at >= ? AND (z.last_at, z.number) <= (?, ?)
        ORDER BY z.last_at DESC, z.number DESC LIMIT ?`,
      { kind: filter.kind, newest },
      [until, filter.from ?? 0, start.at, start.number, this.#limits.opened + 1],
    );
  }

  async page(owner: string, { limit, ...request }: ColdRequest): Promise<ColdPage> {
    const { newest } = request;
    await this.follow(owner, newest);
    const { filter, before } = await this.#narrowed(request);
    const rows: ColdRow[] = [];
    const examination: Examination = { endedAt: null };
    const blocks = this.#blocksThatMayFit({ newest, filter, before }, examination);
    let opened = 0;
    for (const { item, content } of this.#read(blocks, openEntries)) {
      rows.push(...entriesOf(await content, filter, before));
      if (rows.length >= limit) return { rows: rows.slice(0, limit), before: null };
      if (++opened === this.#limits.opened) return { rows, before: BigInt(item.block.firstEntry) };
    }
    return { rows, before: examination.endedAt };
  }

  /**
   * A quote or match has no transfers later than the block with the quote's record, and all
   * transfers of a match have one instant. Without this, a page of one record would read every
   * block that is newer.
   */
  async #narrowed(request: Omit<ColdRequest, "limit">): Promise<Omit<ColdRequest, "limit">> {
    const { newest, filter, before } = request;
    const id = filter.refs?.ids[0];
    if (filter.refs?.brief !== true || id === undefined) return request;
    const at = timeOf(id);
    const entries = this.#stored.withRecords(
      "z.first_at <= ? AND z.last_at >= ? ORDER BY z.number LIMIT ?",
      { kind: "quotes", newest },
      [at + CLOCK_MARGIN_MS, at - CLOCK_MARGIN_MS, this.#limits.opened],
    );
    for (const { item, content } of this.#read(entries, openBlock)) {
      if (recordWith(await content, { kind: "quotes", by: "quote_id", id }) === undefined) continue;
      const end = BigInt(item.block.lastEntry) + 1n;
      return { newest, filter, before: before < end ? before : end };
    }
    if (entries.length === this.#limits.opened) return request;
    return {
      newest,
      filter: { ...filter, to: Math.min(filter.to ?? Infinity, at + SOON_MS) },
      before,
    };
  }

  /** The newest first. An examination ends after as many blocks as a call examines. */
  *#blocksThatMayFit(
    { newest, filter, before }: Omit<ColdRequest, "limit">,
    examination?: Examination,
  ): Generator<Entry> {
    let examined = 0;
    for (const entry of this.#stored.below(newest, before)) {
      // Instants in the journal never go back.
      if (entry.block.lastAt < (filter.from ?? 0)) return;
      if (mayContain(entry.block, filter, before) && this.#mayHaveAmount(entry, filter))
        yield entry;
      if (++examined < this.#limits.examined || examination === undefined) continue;
      examination.endedAt = BigInt(entry.block.firstEntry);
      return;
    }
  }

  #mayHaveAmount({ id, block }: Entry, filter: ColdFilter): boolean {
    if (!hasAmounts(filter)) return true;
    const wanted = wantedAssets(block, filter);
    return hasAmount(this.#stored.amountsOf(id), wanted, amountBounds(filter));
  }

  #read<Content>(
    entries: Iterable<Entry>,
    open: (bytes: Uint8Array<ArrayBuffer>, block: BlockPlace) => Promise<Content>,
  ) {
    return readAhead(entries, async ({ id, block }) =>
      open(
        this.#stored.contentOf(id) ?? (await readBlockBytes(this.#source.bucket, id, block)),
        block,
      ),
    );
  }

  /** The number of entries in the blocks that may contain one that fits. */
  async count(
    owner: string,
    { newest, filter, before }: Omit<ColdRequest, "limit">,
  ): Promise<number> {
    await this.follow(owner, newest);
    let entries = 0;
    for (const { block } of this.#blocksThatMayFit({ newest, filter, before }))
      entries += block.entries;
    return entries;
  }

  /** Extends the index to this seal. A repeat continues what a failed call has read. */
  async follow(owner: string, newest: SealId): Promise<void> {
    let read = 0;
    let next: SealId | null = newest;
    while (next !== null && !this.#stored.has(next, true)) {
      if (!this.#stored.has(next, false)) {
        if (read++ === FOOTERS_PER_CALL) throw new Error(`the history of ${owner} is behind`);
        const block = await this.#blockOf(owner, next);
        this.#stored.add(next, block, await this.#contentToKeep(next, block));
      }
      next = this.#stored.previousOf(next);
    }
    // Everything from here to `newest` is linked now. Blocks of lost seals are not in the chain.
    this.#stored.link(newest, next);
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
