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
import { amountBounds, hasAmounts } from "../ledger/filter.ts";
import { hasAmount } from "./amounts.ts";
import { type ColdFilter, entriesOf, mayContain, wantedAssets } from "./cold-page.ts";
import type { ColdRow } from "../ledger/cold-entries.ts";
import {
  type ArchiveSource,
  ChainFollower,
  FOLLOW_LIMITS,
  type FollowLimits,
} from "./follow-chain.ts";
import { hasMark, type SealId } from "./footer.ts";
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
import type { Kind, SealedRow } from "./sealed-columns.ts";
import { openBlock } from "./seal-format.ts";
import { readBlockBytes } from "./seal-store.ts";
import { type Entry, StoredBlocks } from "./stored-blocks.ts";

/** Blocks that one call reads at most. The caller continues below the last one. */
const BLOCKS_PER_CALL = 50;
/** Blocks that one call examines at most by what the index states of them. */
const EXAMINED_PER_CALL = 5_000;

/**
 * Blocks that one call opens, and all calls at once, have at most so many bytes before compression,
 * unless one alone has more. An open block takes some five times its bytes, of an object's 128 MB.
 */
const OPEN_BYTES = PLATFORM.memoryBytes.number / 16;

/** A Worker has six connections. Most pages need one block, so the first read is alone. */
const READ_AT_ONCE = PLATFORM.connections.number;

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

/** Blocks by the newest record that they contain, then by their seal. */
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

/** For tests. */
export type IndexLimits = FollowLimits & {
  /** Blocks that one call opens, and examines, at most. */
  readonly opened: number;
  readonly examined: number;
  /** Bytes of the blocks that are open at once. */
  readonly open: number;
};

export class BlockIndex {
  readonly #stored: StoredBlocks;
  readonly #source: ArchiveSource;
  readonly #limits: IndexLimits;
  readonly #room: Room;
  readonly #chain: ChainFollower;

  constructor(storage: SqlStorage, source: ArchiveSource, limits: Partial<IndexLimits> = {}) {
    this.#stored = new StoredBlocks(storage);
    this.#source = source;
    const usual = {
      opened: BLOCKS_PER_CALL,
      examined: EXAMINED_PER_CALL,
      open: OPEN_BYTES,
      ...FOLLOW_LIMITS,
    };
    this.#limits = { ...usual, ...limits };
    this.#chain = new ChainFollower(this.#stored, source, this.#limits);
    this.#room = new Room(this.#limits.open);
  }

  /** Extends the index to this seal, or throws `HistoryBehind`. */
  follow(owner: string, newest: SealId): Promise<void> {
    return this.#chain.follow(owner, newest);
  }

  /** Continues what an earlier call did not finish. Whether that is done. */
  resume(): Promise<boolean> {
    return this.#chain.resume();
  }

  /** A part of a list of records. The caller merges the parts and continues at `next`. */
  async records(owner: string, request: RecordsRequest): Promise<RecordsPage> {
    const { newest, filter, after, limit } = request;
    await this.follow(owner, newest);
    const { opened, next } = this.#withinCall(this.#blocksByRecord(request));
    const positionAt = ({ block, id }: Entry) => ({ at: block.high, number: id.number });
    let records: SealedRecord[] = [];
    for await (const { entry, rows } of this.#read(filter.kind, opened)) {
      const last = records[limit - 1];
      const isFull = last !== undefined && positionOf(last).at > entry.block.high;
      if (isFull) return { records, next: positionAt(entry) };
      records = records
        .concat(recordsIn(rows, owner, filter, after))
        .toSorted((a, b) => (isOlder(positionOf(a), positionOf(b)) ? 1 : -1))
        .slice(0, limit);
    }
    return { records, next: next === undefined ? null : positionAt(next) };
  }

  /** One record. The oldest blocks first, because most records end soon. */
  async find(owner: string, { newest, key, between, above }: FindRequest): Promise<Found> {
    await this.follow(owner, newest);
    const { examined } = this.#limits;
    const entries = this.#stored.select(
      "+b.number > ? AND +b.low <= ? AND b.high >= ? ORDER BY +b.number LIMIT ?",
      { kind: key.kind, newest },
      [above, between[1], between[0], examined],
    );
    const named = entries.filter(
      ({ id }) =>
        key.by !== "request_id" || hasMark(this.#stored.textOf("marks", id, key.kind), key.id),
    );
    const { opened, next } = this.#withinCall(named);
    for await (const { rows } of this.#read(key.kind, opened)) {
      const record = recordWith(rows, key);
      if (record !== undefined) return { record, above: null };
    }
    if (next !== undefined) return { record: null, above: opened.at(-1)?.id.number ?? null };
    const last = entries.length < examined ? undefined : entries.at(-1);
    return { record: null, above: last?.id.number ?? null };
  }

  /** The blocks of a list from a position on, and one more than a call opens. */
  #blocksByRecord({ newest, filter, after, from }: RecordsRequest): Entry[] {
    const until = Math.min(after?.at ?? Number.MAX_SAFE_INTEGER, filter.to ?? Infinity);
    const start = from ?? { at: Number.MAX_SAFE_INTEGER, number: Number.MAX_SAFE_INTEGER };
    return this.#stored.select(
      `b.low <= ? AND b.high >= ? AND (b.high, b.number) <= (?, ?)
        ORDER BY b.high DESC, b.number DESC LIMIT ?`,
      { kind: filter.kind, newest },
      [until, filter.from ?? 0, start.at, start.number, this.#limits.opened + 1],
    );
  }

  async page(owner: string, { limit, newest, before, filter }: ColdRequest): Promise<ColdPage> {
    await this.follow(owner, newest);
    const rows: ColdRow[] = [];
    const examination: Examination = { endedAt: null };
    const fitting = this.#blocksThatMayFit({ newest, filter, before }, examination);
    const { opened, next } = this.#withinCall(fitting);
    for await (const { rows: transfers } of this.#read("transfers", opened)) {
      rows.push(...entriesOf(transfers, owner, filter, before));
      if (rows.length >= limit) return { rows: rows.slice(0, limit), before: null };
    }
    const last = next === undefined ? undefined : opened.at(-1);
    return { rows, before: last === undefined ? examination.endedAt : BigInt(last.block.low) };
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
      examination.endedAt = BigInt(entry.block.low);
      return;
    }
  }

  #mayHaveAmount({ id, block }: Entry, filter: ColdFilter): boolean {
    if (!hasAmounts(filter)) return true;
    const amounts = this.#stored.textOf("amounts", id, "transfers");
    return hasAmount(amounts, wantedAssets(block, filter), amountBounds(filter));
  }

  /** The blocks that a call may open, at least one, and the one after them. */
  #withinCall(entries: Iterable<Entry>): { opened: Entry[]; next?: Entry } {
    const opened: Entry[] = [];
    let bytes = 0;
    for (const entry of entries) {
      bytes += entry.block.contentLength;
      const isTooMuch = opened.length === this.#limits.opened || bytes > this.#limits.open;
      if (opened.length > 0 && isTooMuch) return { opened, next: entry };
      opened.push(entry);
    }
    return { opened };
  }

  /** Each entry with its rows. A read of R2 takes tens of milliseconds, so some run at once. */
  async *#read<K extends Kind>(
    kind: K,
    entries: readonly Entry[],
  ): AsyncGenerator<{ entry: Entry; rows: SealedRow<K>[] }> {
    for (let start = 0; start < entries.length; start += start === 0 ? 1 : READ_AT_ONCE) {
      const some = entries.slice(start, start === 0 ? 1 : start + READ_AT_ONCE);
      const bytes = some.reduce((sum, { block }) => sum + block.contentLength, 0);
      await this.#room.enter(bytes);
      try {
        const stored = await Promise.all(some.map((entry) => this.#bytesOf(kind, entry)));
        for (const [place, entry] of some.entries())
          yield { entry, rows: openBlock(kind, stored[place] ?? new Uint8Array(), entry.block) };
      } finally {
        this.#room.leave(bytes);
      }
    }
  }

  async #bytesOf(kind: Kind, { id, block }: Entry): Promise<Uint8Array> {
    const kept = this.#stored.contentOf(id, kind);
    return kept ?? (await readBlockBytes(this.#source.bucket, id, block));
  }

  /** The number of entries in the blocks that may contain one that fits. */
  async count(
    owner: string,
    { newest, filter, before }: Omit<ColdRequest, "limit">,
  ): Promise<number> {
    await this.follow(owner, newest);
    let entries = 0;
    for (const { block } of this.#blocksThatMayFit({ newest, filter, before }))
      entries += block.count;
    return entries;
  }
}
