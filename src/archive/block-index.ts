/**
 * An index of one owner's blocks in the archive. It can be rebuilt from the archive and is never
 * the only copy.
 *
 * The database names the last seal with a block of the owner, and each block names the seal before.
 * So the index is complete if it contains the chain from that seal on, and a seal that a restore
 * has lost is in no chain.
 */
import { PLATFORM } from "../platform/platform-limits.ts";
import { Room } from "../platform/room.ts";
import { hasAmounts } from "../ledger/filter.ts";
import { type ColdFilter, entriesOf, isFiltered, mayContain, mayHaveAmount } from "./cold-page.ts";
import type { ColdRows } from "../ledger/cold-entries.ts";
import {
  type ArchiveSource,
  ChainFollower,
  FOLLOW_LIMITS,
  type FollowLimits,
} from "./follow-chain.ts";
import { hasMark, type SealId } from "./footer.ts";
import {
  newestFirst,
  positionOf,
  type RecordFilter,
  type RecordPosition,
  recordsIn,
  type SealedRecord,
} from "./record-page.ts";
import type { Kind, SealedRow } from "./sealed-columns.ts";
import { openBlock } from "./seal-format.ts";
import { readBlock } from "./seal-store.ts";
import { type BlockPosition, type Entry, StoredBlocks } from "./stored-blocks.ts";

/** For tests. */
export type IndexLimits = FollowLimits & {
  /**
   * Blocks that one call opens, of 1 000 reads of an invocation, which also reads footers. Without
   * filters every block has an entry, so that a page of 500 is never short.
   */
  readonly opened: number;
  /** The same of a page of entries with filters, of which a block may have none. */
  readonly filtered: number;
  /** Blocks that one call examines by what the index states of them. */
  readonly examined: number;
  /**
   * Bytes before compression of the blocks that all calls open at once, unless one alone has more.
   * An open block takes some five times its bytes, of an object's 128 MB.
   */
  readonly open: number;
};

const LIMITS: IndexLimits = {
  opened: 600,
  filtered: 200,
  examined: 20_000,
  open: PLATFORM.memoryBytes / 16,
  ...FOLLOW_LIMITS,
};
/** One call opens so many times the bytes that are open at once. They take a second to read. */
const ROOMS_PER_CALL = 4;

/** A Worker has six connections. Most pages need one block, so the first read is alone. */
const READ_AT_ONCE = PLATFORM.connections;

export type RecordsRequest = {
  readonly newest: SealId;
  readonly filter: RecordFilter;
  /** Records after this position. Null: from the first one. */
  readonly after: RecordPosition | null;
  readonly limit: number;
  /** Where the last call ended. Blocks overlap, so a position of a record would not do. */
  readonly from: BlockPosition | null;
};

export type RecordsPage = {
  /** At most `limit`, in the order of the list. */
  readonly records: readonly SealedRecord[];
  /** The next block that may contain more; null if none does. */
  readonly next: BlockPosition | null;
};

export type ColdRequest = {
  readonly newest: SealId;
  readonly filter: ColdFilter;
  readonly before: bigint;
  readonly limit: number;
};

export class BlockIndex {
  readonly #stored: StoredBlocks;
  readonly #source: ArchiveSource;
  readonly #limits: IndexLimits;
  readonly #room: Room;
  /** Each read extends the index to the newest seal first. */
  readonly chain: ChainFollower;

  constructor(storage: SqlStorage, source: ArchiveSource, limits: Partial<IndexLimits> = {}) {
    this.#stored = new StoredBlocks(storage);
    this.#source = source;
    this.#limits = { ...LIMITS, ...limits };
    this.chain = new ChainFollower(this.#stored, source, this.#limits);
    this.#room = new Room(this.#limits.open);
  }

  /** A part of a list of records. */
  async records(owner: string, request: RecordsRequest): Promise<RecordsPage> {
    const { newest, filter, after, limit, from } = request;
    await this.chain.follow(owner, newest);
    const until = Math.min(after?.at ?? Infinity, filter.to ?? Number.MAX_SAFE_INTEGER);
    const period = [filter.from ?? 0, until] as const;
    const blocks = this.#stored.withRecords(filter.kind, newest, period, from);
    let records: SealedRecord[] = [];
    for await (const { entry, rows } of this.#open(filter.kind, blocks, {
      fits: (one) => this.#mayHaveRequest(one, filter),
      most: this.#limits.opened,
    })) {
      // What was read is complete above the newest record of this block.
      const { high } = entry.block;
      const last = records[limit - 1];
      if (last !== undefined && positionOf(last).at > high) break;
      if (rows === null) return { records, next: { at: high, number: entry.id.number } };
      records = newestFirst([...records, ...recordsIn(rows, owner, filter, after)]).slice(0, limit);
    }
    return { records, next: null };
  }

  /** The blocks of quotes have no marks. A quote is found by its instant. */
  #mayHaveRequest({ id }: Entry, { kind, key }: RecordFilter): boolean {
    if (key?.by !== "request_id" || kind === "quotes") return true;
    return hasMark(this.#stored.textOf("marks", id, kind), key.id);
  }

  /** Entries below a position, newest first. */
  async page(owner: string, { limit, newest, before, filter }: ColdRequest): Promise<ColdRows> {
    await this.chain.follow(owner, newest);
    const entries: ColdRows["rows"][number][] = [];
    const blocks = this.#since(filter.from ?? 0, this.#stored.below(newest, before));
    for await (const { entry, rows } of this.#open("transfers", blocks, {
      fits: (one) => this.#mayFit(one, filter, before),
      most: isFiltered(filter) ? this.#limits.filtered : this.#limits.opened,
    })) {
      if (rows === null) return { rows: entries, before: BigInt(entry.block.high) + 1n };
      entries.push(...entriesOf(rows, owner, filter, before));
      if (entries.length >= limit) return { rows: entries.slice(0, limit), before: null };
    }
    return { rows: entries, before: null };
  }

  #mayFit({ id, block }: Entry, filter: ColdFilter, before: bigint): boolean {
    if (!mayContain(block, filter, before)) return false;
    if (!hasAmounts(filter)) return true;
    return mayHaveAmount(block, this.#stored.textOf("amounts", id, "transfers"), filter);
  }

  /** The number of entries in the blocks that may contain one that fits. */
  async count(
    owner: string,
    { newest, filter, before }: Omit<ColdRequest, "limit">,
  ): Promise<number> {
    await this.chain.follow(owner, newest);
    let entries = 0;
    for (const entry of this.#since(filter.from ?? 0, this.#stored.below(newest, before)))
      if (this.#mayFit(entry, filter, before)) entries += entry.block.count;
    return entries;
  }

  /** The newest first. Instants in the journal never go back. */
  *#since(from: number, entries: Iterable<Entry>): Generator<Entry> {
    for (const entry of entries) {
      if (entry.block.lastAt < from) return;
      yield entry;
    }
  }

  /**
   * The blocks that fit with their rows, as many as one call may open. Then the next one follows
   * without rows: the caller continues there. Reads of R2 take long, so some run at once.
   */
  async *#open<K extends Kind>(
    kind: K,
    entries: Iterable<Entry>,
    { fits, most }: { readonly fits: (entry: Entry) => boolean; readonly most: number },
  ): AsyncGenerator<{ entry: Entry; rows: SealedRow<K>[] | null }> {
    let [examined, opened, bytes, atOnce] = [0, 0, 0, 1];
    let batch: Entry[] = [];
    for (const entry of entries) {
      const isFitting = fits(entry);
      const { contentLength } = entry.block;
      const isTooMuch =
        opened > 0 &&
        (opened === most || bytes + contentLength > ROOMS_PER_CALL * this.#limits.open);
      if (examined++ === this.#limits.examined || (isFitting && isTooMuch)) {
        yield* this.#read(kind, batch);
        yield { entry, rows: null };
        return;
      }
      if (!isFitting) continue;
      if (batch.length === atOnce || sizeOf([...batch, entry]) > this.#limits.open) {
        yield* this.#read(kind, batch);
        [batch, atOnce] = [[], READ_AT_ONCE];
      }
      batch.push(entry);
      opened++;
      bytes += contentLength;
    }
    yield* this.#read(kind, batch);
  }

  async *#read<K extends Kind>(
    kind: K,
    entries: readonly Entry[],
  ): AsyncGenerator<{ entry: Entry; rows: SealedRow<K>[] }> {
    const bytes = sizeOf(entries);
    await this.#room.enter(bytes);
    try {
      const stored = await Promise.all(entries.map((entry) => this.#bytesOf(kind, entry)));
      for (const [place, entry] of entries.entries())
        yield { entry, rows: openBlock(kind, stored[place] ?? new Uint8Array(), entry.block) };
    } finally {
      this.#room.leave(bytes);
    }
  }

  async #bytesOf(kind: Kind, { id, block }: Entry): Promise<Uint8Array> {
    const kept = this.#stored.contentOf(id, kind);
    return kept ?? (await readBlock(this.#source.bucket, id, block));
  }
}

/** Before compression. */
function sizeOf(entries: readonly Entry[]): number {
  return entries.reduce((sum, { block }) => sum + block.contentLength, 0);
}
