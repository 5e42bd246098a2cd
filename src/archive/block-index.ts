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
import { CLOCK_MARGIN_MS, type ColdFilter, entriesOf, mayContain, timeOf } from "./cold-page.ts";
import type { ColdRow } from "../ledger/cold-entries.ts";
import type { OwnerBlock, SealId } from "./footer.ts";
import {
  isOlder,
  positionOf,
  type RecordFilter,
  type RecordKey,
  type RecordKind,
  type RecordPosition,
  recordsIn,
  recordWith,
  type SealedRecord,
} from "./record-page.ts";
import { readAhead } from "./read-ahead.ts";
import { readBlock, readEntries, readFooterAt } from "./seal-store.ts";

/** Footers that one call reads at most. A call that needs more fails, and the next one continues. */
const FOOTERS_PER_CALL = 200;
/** Blocks that one call reads at most. The caller continues below the last one. */
const BLOCKS_PER_CALL = 50;

/** A quote ends, and a match is settled, at most so long after its id was made. */
const SOON_MS = 600_000;

/** A block of the owner, and the seal that contains it. */
type Entry = { readonly id: SealId; readonly block: OwnerBlock };

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
  readonly #blocksPerCall: number;

  /** Tests read fewer blocks a call. */
  constructor(storage: SqlStorage, source: ArchiveSource, blocksPerCall = BLOCKS_PER_CALL) {
    this.#sql = storage;
    this.#source = source;
    this.#blocksPerCall = blocksPerCall;
    // `linked`: the chain from this block to the first one is complete.
    storage.exec(`CREATE TABLE IF NOT EXISTS blocks (
      number INTEGER NOT NULL, epoch INTEGER NOT NULL, first_entry INTEGER NOT NULL,
      entries INTEGER NOT NULL, linked INTEGER NOT NULL, block TEXT NOT NULL,
      PRIMARY KEY (number, epoch))`);
    storage.exec(`CREATE INDEX IF NOT EXISTS blocks_by_entry ON blocks (linked, first_entry)
      WHERE entries > 0`);
    // When the records of one kind in a block were opened or made.
    storage.exec(`CREATE TABLE IF NOT EXISTS zones (
      kind TEXT NOT NULL, last_at INTEGER NOT NULL, number INTEGER NOT NULL,
      epoch INTEGER NOT NULL, first_at INTEGER NOT NULL,
      PRIMARY KEY (kind, last_at, number, epoch, first_at)) WITHOUT ROWID`);
  }

  /** A part of a list of records. The caller merges the parts and continues at `next`. */
  async records(owner: string, request: RecordsRequest): Promise<RecordsPage> {
    const { newest, filter, after, limit } = request;
    await this.follow(owner, newest);
    let records: SealedRecord[] = [];
    const blocks = this.#blocksByRecord(request);
    const opened = blocks.slice(0, this.#blocksPerCall);
    for (const { item, content } of this.#read(opened, readBlock)) {
      const { lastAt } = item.block[filter.kind];
      const last = records[limit - 1];
      const isFull = last !== undefined && positionOf(last).at > lastAt;
      if (isFull) return { records, next: { at: lastAt, number: item.id.number } };
      records = records
        .concat(recordsIn(await content, owner, filter, after))
        .toSorted((a, b) => (isOlder(positionOf(a), positionOf(b)) ? 1 : -1))
        .slice(0, limit);
    }
    const rest = blocks[this.#blocksPerCall];
    return {
      records,
      next:
        rest === undefined ? null : { at: rest.block[filter.kind].lastAt, number: rest.id.number },
    };
  }

  /** One record. The oldest blocks first, because most records end soon. */
  async find(owner: string, { newest, key, between, above }: FindRequest): Promise<Found> {
    await this.follow(owner, newest);
    const entries = this.#entries(
      "z.number > ? AND z.first_at <= ? AND z.last_at >= ? ORDER BY z.number LIMIT ?",
      { kind: key.kind, newest },
      [above, between[1], between[0], this.#blocksPerCall],
    );
    for (const { content } of this.#read(entries, readBlock)) {
      const record = recordWith(await content, key);
      if (record !== undefined) return { record, above: null };
    }
    const last = entries.at(-1);
    const ended = last === undefined || entries.length < this.#blocksPerCall;
    return { record: null, above: ended ? null : last.id.number };
  }

  /** The blocks of a list from a position on, and one more than a call opens. */
  #blocksByRecord({ newest, filter, after, from }: RecordsRequest): Entry[] {
    const until = Math.min(after?.at ?? Number.MAX_SAFE_INTEGER, filter.to ?? Infinity);
    const start = from ?? { at: Number.MAX_SAFE_INTEGER, number: Number.MAX_SAFE_INTEGER };
    return this.#entries(
      `z.first_at <= ? AND z.last_at >= ? AND (z.last_at, z.number) <= (?, ?)
        ORDER BY z.last_at DESC, z.number DESC LIMIT ?`,
      { kind: filter.kind, newest },
      [until, filter.from ?? 0, start.at, start.number, this.#blocksPerCall + 1],
    );
  }

  /**
   * Blocks with records of a kind. `where` is trusted text over their zone `z`. Everything up to
   * `newest` is linked, and nothing else is.
   */
  #entries(
    where: string,
    { kind, newest }: { readonly kind: RecordKind; readonly newest: SealId },
    params: readonly number[],
  ): Entry[] {
    return this.#sql
      .exec<{ number: number; epoch: number; block: string }>(
        `SELECT b.number, b.epoch, b.block
          FROM zones z CROSS JOIN blocks b ON b.number = z.number AND b.epoch = z.epoch
          WHERE z.kind = ? AND b.linked = 1 AND z.number <= ? AND ${where}`,
        kind,
        newest.number,
        ...params,
      )
      .toArray()
      .flatMap(({ number, epoch, block: text }) => {
        const block = fromText(text);
        return block === null ? [] : [{ id: { number, epoch }, block }];
      });
  }

  async page(owner: string, { limit, ...request }: ColdRequest): Promise<ColdPage> {
    const { newest } = request;
    await this.follow(owner, newest);
    const { filter, before } = await this.#narrowed(request);
    const rows: ColdRow[] = [];
    let opened = 0;
    for (const { item, content } of this.#read(
      this.#blocksThatMayFit({ newest, filter, before }),
      readEntries,
    )) {
      rows.push(...entriesOf(await content, filter, before));
      if (rows.length >= limit) return { rows: rows.slice(0, limit), before: null };
      if (++opened === this.#blocksPerCall) return { rows, before: BigInt(item.block.firstEntry) };
    }
    return { rows, before: null };
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
    const entries = this.#entries(
      "z.first_at <= ? AND z.last_at >= ? ORDER BY z.number LIMIT ?",
      { kind: "quotes", newest },
      [at + CLOCK_MARGIN_MS, at - CLOCK_MARGIN_MS, this.#blocksPerCall],
    );
    for (const { item, content } of this.#read(entries, readBlock)) {
      if (recordWith(await content, { kind: "quotes", by: "quote_id", id }) === undefined) continue;
      const end = BigInt(item.block.lastEntry) + 1n;
      return { newest, filter, before: before < end ? before : end };
    }
    if (entries.length === this.#blocksPerCall) return request;
    return {
      newest,
      filter: { ...filter, to: Math.min(filter.to ?? Infinity, at + SOON_MS) },
      before,
    };
  }

  *#blocksThatMayFit({ newest, filter, before }: Omit<ColdRequest, "limit">): Generator<Entry> {
    for (const entry of this.#blocksBelow(newest, before))
      if (mayContain(entry.block, filter, before)) yield entry;
  }

  #read<Content>(
    entries: Iterable<Entry>,
    read: (bucket: ArchiveSource["bucket"], id: SealId, block: OwnerBlock) => Promise<Content>,
  ) {
    return readAhead(entries, ({ id, block }) => read(this.#source.bucket, id, block));
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
    for (const kind of ["requests", "quotes", "matches"] as const) {
      const { count, firstAt, lastAt } = block[kind];
      if (count === 0) continue;
      this.#sql.exec(
        "INSERT OR REPLACE INTO zones VALUES (?, ?, ?, ?, ?)",
        kind,
        lastAt,
        number,
        epoch,
        firstAt,
      );
    }
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
      const { number, epoch } = at;
      this.#sql.exec("DELETE FROM blocks WHERE number = ? AND epoch <> ?", number, epoch);
      if (number === known?.number) return;
      this.#sql.exec("UPDATE blocks SET linked = 1 WHERE number = ?", number);
      // Blocks between two links are of seals that a restore has lost.
      this.#sql.exec(
        "DELETE FROM blocks WHERE number > ? AND number < ?",
        this.#previousOf(at)?.number ?? 0,
        number,
      );
    }
  }

  /** The blocks with entries below a position, the newest first. Linked: see `#entries`. */
  *#blocksBelow(newest: SealId, before: bigint): Generator<Entry> {
    for (let below = before; ;) {
      const rows = this.#sql
        .exec<{ number: number; epoch: number; block: string }>(
          `SELECT number, epoch, block FROM blocks INDEXED BY blocks_by_entry
            WHERE linked = 1 AND first_entry < CAST(? AS INTEGER) AND number <= ? AND entries > 0
            ORDER BY first_entry DESC LIMIT ?`,
          String(below),
          newest.number,
          this.#blocksPerCall,
        )
        .toArray();
      for (const { number, epoch, block: text } of rows) {
        const block = fromText(text);
        if (block === null) throw new Error("the index has no block");
        below = BigInt(block.firstEntry);
        yield { id: { number, epoch }, block };
      }
      if (rows.length < this.#blocksPerCall) return;
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
