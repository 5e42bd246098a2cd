/** The tables of one owner's index: a row for each block, with what its footer states of it. */
import type { OwnerBlock, SealId } from "./footer.ts";
import type { RecordKind } from "./record-page.ts";

/** A block, without the lists that only some reads need. */
type IndexedBlock = Omit<OwnerBlock, "amounts" | "requestMarks">;

/** A block of the owner, and the seal that contains it. */
export type Entry = { readonly id: SealId; readonly block: IndexedBlock };

/** Rows of one read of the index. */
const ROWS_PER_READ = 100;

type Row = { readonly number: number; readonly epoch: number; readonly block: string };

/** A way down the chain that takes more than one call: from `top`, and now at `at`; null: ended. */
export type Walk = { readonly owner: string; readonly top: SealId; readonly at: SealId | null };

export class StoredBlocks {
  readonly #sql: SqlStorage;

  constructor(storage: SqlStorage) {
    this.#sql = storage;
    // `linked`: the chain from this block to the first one is complete. `content`: of small blocks,
    // as in the archive. SQLite reads the large columns, the last ones, only if they are selected.
    // An empty list of marks or of amounts may be bound as NULL.
    storage.exec(`CREATE TABLE IF NOT EXISTS blocks (
      number INTEGER NOT NULL, epoch INTEGER NOT NULL, first_entry INTEGER NOT NULL,
      entries INTEGER NOT NULL, linked INTEGER NOT NULL, block TEXT NOT NULL,
      request_marks BLOB, amounts BLOB, content BLOB,
      PRIMARY KEY (number, epoch))`);
    storage.exec(`CREATE INDEX IF NOT EXISTS blocks_by_entry ON blocks (linked, first_entry)
      WHERE entries > 0`);
    // The walk that the last call could not end.
    storage.exec(`CREATE TABLE IF NOT EXISTS walks (
      one INTEGER PRIMARY KEY CHECK (one = 1), owner TEXT NOT NULL, top_number INTEGER NOT NULL,
      top_epoch INTEGER NOT NULL, at_number INTEGER, at_epoch INTEGER)`);
    // When the records of one kind in a block were opened or made.
    storage.exec(`CREATE TABLE IF NOT EXISTS zones (
      kind TEXT NOT NULL, last_at INTEGER NOT NULL, number INTEGER NOT NULL,
      epoch INTEGER NOT NULL, first_at INTEGER NOT NULL,
      PRIMARY KEY (kind, last_at, number, epoch, first_at)) WITHOUT ROWID`);
  }

  has({ number, epoch }: SealId, linked: boolean): boolean {
    const found = this.#sql.exec(
      "SELECT 1 FROM blocks WHERE number = ? AND epoch = ? AND linked >= ?",
      number,
      epoch,
      linked ? 1 : 0,
    );
    return found.toArray().length > 0;
  }

  /** `content` is kept for readers, unless it is null. */
  add(
    { number, epoch }: SealId,
    { amounts, requestMarks, ...block }: OwnerBlock,
    content: Uint8Array | null,
  ): void {
    this.#sql.exec(
      "INSERT OR IGNORE INTO blocks VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?)",
      number,
      epoch,
      block.firstEntry,
      block.entries,
      toText(block),
      requestMarks.slice().buffer,
      amounts.slice().buffer,
      content === null ? null : content.slice().buffer,
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

  previousOf({ number, epoch }: SealId): SealId | null {
    const rows = this.#sql
      .exec<{ block: string }>(
        "SELECT block FROM blocks WHERE number = ? AND epoch = ?",
        number,
        epoch,
      )
      .toArray();
    return fromText(rows[0]?.block ?? "null")?.previous ?? null;
  }

  walk(): Walk | null {
    const [row] = this.#sql
      .exec<{
        owner: string;
        top_number: number;
        top_epoch: number;
        at_number: number | null;
        at_epoch: number | null;
      }>("SELECT * FROM walks")
      .toArray();
    if (row === undefined) return null;
    const { owner, at_number: number, at_epoch: epoch } = row;
    const at = number === null || epoch === null ? null : { number, epoch };
    return { owner, top: { number: row.top_number, epoch: row.top_epoch }, at };
  }

  keepWalk({ owner, top, at }: Walk): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO walks VALUES (1, ?, ?, ?, ?, ?)",
      owner,
      top.number,
      top.epoch,
      at?.number ?? null,
      at?.epoch ?? null,
    );
  }

  endWalk(): void {
    this.#sql.exec("DELETE FROM walks");
  }

  /** The last block above a seal, if it is linked. */
  linkedAbove(number: number): SealId | undefined {
    return this.#sql
      .exec<{ number: number; epoch: number }>(
        `SELECT number, epoch FROM blocks WHERE number > ? AND linked = 1
          ORDER BY number DESC LIMIT 1`,
        number,
      )
      .toArray()[0];
  }

  /** Blocks above the seal that the database names, and linked, are of seals that it has lost. */
  unlinkAbove({ number }: SealId): void {
    this.#sql.exec("DELETE FROM blocks WHERE number > ? AND linked = 1", number);
  }

  /** Blocks between two of the chain are of seals that a restore has lost. */
  deleteBetween(low: SealId | null, high: SealId): void {
    this.#sql.exec(
      `DELETE FROM blocks WHERE number BETWEEN ? AND ?
        AND (number, epoch) <> (?, ?) AND (number, epoch) <> (?, ?)`,
      low?.number ?? 0,
      high.number,
      low?.number ?? 0,
      low?.epoch ?? 0,
      high.number,
      high.epoch,
    );
  }

  /**
   * Links blocks up to `top`, above a linked one, at most so many. Nothing but the chain is there.
   * Returns the last one that is linked.
   */
  link({ top, at }: Walk, most: number): SealId {
    const [last] = this.#sql
      .exec<{ number: number; epoch: number }>(
        `SELECT number, epoch FROM blocks WHERE number > ? AND number <= ?
          ORDER BY number LIMIT 1 OFFSET ?`,
        at?.number ?? 0,
        top.number,
        most - 1,
      )
      .toArray();
    const end = last ?? top;
    this.#sql.exec(
      "UPDATE blocks SET linked = 1 WHERE number > ? AND number <= ?",
      at?.number ?? 0,
      end.number,
    );
    return end;
  }

  /**
   * Blocks with records of a kind. `where` is trusted text over their zone `z`. Everything up to
   * `newest` is linked, and nothing else is.
   */
  withRecords(
    where: string,
    { kind, newest }: { readonly kind: RecordKind; readonly newest: SealId },
    params: readonly number[],
  ): Entry[] {
    return this.#sql
      .exec<Row>(
        `SELECT b.number, b.epoch, b.block
          FROM zones z CROSS JOIN blocks b ON b.number = z.number AND b.epoch = z.epoch
          WHERE z.kind = ? AND b.linked = 1 AND z.number <= ? AND ${where}`,
        kind,
        newest.number,
        ...params,
      )
      .toArray()
      .map(entryOf);
  }

  /** The blocks with entries below a position, the newest first. Linked: see `withRecords`. */
  *below(newest: SealId, before: bigint): Generator<Entry> {
    for (let below = before; ;) {
      const rows = this.#sql
        .exec<Row>(
          `SELECT number, epoch, block FROM blocks INDEXED BY blocks_by_entry
            WHERE linked = 1 AND first_entry < CAST(? AS INTEGER) AND number <= ? AND entries > 0
            ORDER BY first_entry DESC LIMIT ${ROWS_PER_READ}`,
          String(below),
          newest.number,
        )
        .toArray();
      for (const row of rows) {
        const entry = entryOf(row);
        below = BigInt(entry.block.firstEntry);
        yield entry;
      }
      if (rows.length < ROWS_PER_READ) return;
    }
  }

  amountsOf(id: SealId): Uint8Array {
    return new Uint8Array(this.#bytesOf(id, "amounts") ?? []);
  }

  requestMarksOf(id: SealId): Uint8Array {
    return new Uint8Array(this.#bytesOf(id, "request_marks") ?? []);
  }

  /** Null unless the content is kept here. */
  contentOf(id: SealId): Uint8Array<ArrayBuffer> | null {
    const content = this.#bytesOf(id, "content");
    return content === null ? null : new Uint8Array(content);
  }

  #bytesOf(
    { number, epoch }: SealId,
    column: "amounts" | "request_marks" | "content",
  ): ArrayBuffer | null {
    return this.#sql
      .exec<{ bytes: ArrayBuffer | null }>(
        `SELECT ${column} AS bytes FROM blocks WHERE number = ? AND epoch = ?`,
        number,
        epoch,
      )
      .one().bytes;
  }
}

function entryOf({ number, epoch, block: text }: Row): Entry {
  const block = fromText(text);
  if (block === null) throw new Error("the index has no block");
  return { id: { number, epoch }, block };
}

/** Amounts as text, because JSON has no integers of that size. */
function toText(block: IndexedBlock): string {
  return JSON.stringify({
    ...block,
    smallest: String(block.smallest),
    largest: String(block.largest),
  });
}

function fromText(text: string): IndexedBlock | null {
  // Safe cast: only `toText` writes these texts.
  const stored = JSON.parse(text) as (IndexedBlock & { smallest: string; largest: string }) | null;
  if (stored === null) return null;
  return { ...stored, smallest: BigInt(stored.smallest), largest: BigInt(stored.largest) };
}
