/** The tables of one owner's index: the chain of seals, and what footers state of each block. */
import { readTable, writeTable } from "./column-text.ts";
import { BLOCK, type Block, PLACE, previousOf, type SealId } from "./footer.ts";
import type { Kind } from "./sealed-columns.ts";

/** A block of the owner, and the seal that contains it. */
export type Entry = { readonly id: SealId; readonly block: Block };

const INDEXED = { ...BLOCK, ...PLACE };

/** Rows of one read of the index. */
const ROWS_PER_READ = 100;

type Row = { readonly number: number; readonly epoch: number; readonly block: string };

/** A way down the chain that takes more than one call: from `top`, and now at `at`; null: ended. */
export type Scan = { readonly owner: string; readonly top: SealId; readonly at: SealId | null };

export class StoredBlocks {
  readonly #sql: SqlStorage;

  constructor(storage: SqlStorage) {
    this.#sql = storage;
    // Seals with blocks of the owner. `linked`: the chain from this one to the first is complete.
    storage.exec(`CREATE TABLE IF NOT EXISTS seals (
      number INTEGER NOT NULL, epoch INTEGER NOT NULL, linked INTEGER NOT NULL,
      previous_number INTEGER, previous_epoch INTEGER, PRIMARY KEY (number, epoch)) WITHOUT ROWID`);
    // `content`: of small blocks, as in the archive. SQLite reads the large columns, the last ones,
    // only if they are selected.
    storage.exec(`CREATE TABLE IF NOT EXISTS blocks (
      number INTEGER NOT NULL, epoch INTEGER NOT NULL, kind TEXT NOT NULL, low INTEGER NOT NULL,
      high INTEGER NOT NULL, block TEXT NOT NULL, marks TEXT, amounts TEXT,
      content BLOB,
      PRIMARY KEY (number, epoch, kind))`);
    storage.exec("CREATE INDEX IF NOT EXISTS blocks_by_low ON blocks (kind, low)");
    storage.exec("CREATE INDEX IF NOT EXISTS blocks_by_high ON blocks (kind, high, number)");
    // The scan that the last call could not end.
    storage.exec(`CREATE TABLE IF NOT EXISTS scans (
      one INTEGER PRIMARY KEY CHECK (one = 1), scan TEXT NOT NULL)`);
  }

  has({ number, epoch }: SealId, linked: boolean): boolean {
    const found = this.#sql.exec(
      "SELECT 1 FROM seals WHERE number = ? AND epoch = ? AND linked >= ?",
      number,
      epoch,
      linked ? 1 : 0,
    );
    return found.toArray().length > 0;
  }

  /** The owner's blocks of a seal. Those with a content are kept for readers. */
  add(
    { number, epoch }: SealId,
    blocks: readonly { readonly block: Block; readonly content: Uint8Array<ArrayBuffer> | null }[],
  ): void {
    for (const { block, content } of blocks)
      this.#sql.exec(
        "INSERT OR IGNORE INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        number,
        epoch,
        block.kind,
        block.low,
        block.high,
        writeTable(INDEXED, [{ ...block, marks: null, amounts: null }]),
        block.marks,
        block.amounts,
        content === null ? null : content.slice().buffer,
      );
    const [first] = blocks;
    const previous = first === undefined ? null : previousOf(first.block);
    this.#sql.exec(
      "INSERT OR IGNORE INTO seals VALUES (?, ?, 0, ?, ?)",
      number,
      epoch,
      previous?.number ?? null,
      previous?.epoch ?? null,
    );
  }

  previousOf({ number, epoch }: SealId): SealId | null {
    const [row] = this.#sql
      .exec<{ number: number | null; epoch: number | null }>(
        `SELECT previous_number AS number, previous_epoch AS epoch FROM seals
          WHERE number = ? AND epoch = ?`,
        number,
        epoch,
      )
      .toArray();
    const [before, of] = [row?.number ?? null, row?.epoch ?? null];
    return before === null || of === null ? null : { number: before, epoch: of };
  }

  scan(): Scan | null {
    const [row] = this.#sql.exec<{ scan: string }>("SELECT scan FROM scans").toArray();
    // Safe cast: only `keepScan` writes these texts.
    return row === undefined ? null : (JSON.parse(row.scan) as Scan);
  }

  keepScan(scan: Scan): void {
    this.#sql.exec("INSERT OR REPLACE INTO scans VALUES (1, ?)", JSON.stringify(scan));
  }

  endScan(): void {
    this.#sql.exec("DELETE FROM scans");
  }

  /** The last seal above another one, if it is linked. */
  linkedAbove(number: number): SealId | undefined {
    return this.#sql
      .exec<{ number: number; epoch: number }>(
        `SELECT number, epoch FROM seals WHERE number > ? AND linked = 1
          ORDER BY number DESC LIMIT 1`,
        number,
      )
      .toArray()[0];
  }

  /** Seals above the one that the database names, and linked, are lost. */
  unlinkAbove({ number }: SealId): void {
    this.#delete("number > ? AND linked = 1", [number]);
  }

  /** Seals between two of the chain are those that a restore has lost. */
  deleteBetween(low: SealId | null, high: SealId): void {
    this.#delete("number BETWEEN ? AND ? AND (number, epoch) NOT IN (VALUES (?, ?), (?, ?))", [
      low?.number ?? 0,
      high.number,
      low?.number ?? 0,
      low?.epoch ?? 0,
      high.number,
      high.epoch,
    ]);
  }

  #delete(where: string, params: readonly number[]): void {
    this.#sql.exec(
      `DELETE FROM blocks WHERE (number, epoch) IN (SELECT number, epoch FROM seals WHERE ${where})`,
      ...params,
    );
    this.#sql.exec(`DELETE FROM seals WHERE ${where}`, ...params);
  }

  /**
   * Links seals up to `top`, above a linked one, at most so many. Nothing but the chain is there.
   * Returns the last one that is linked.
   */
  link({ top, at }: Scan, most: number): SealId {
    const [last] = this.#sql
      .exec<{ number: number; epoch: number }>(
        `SELECT number, epoch FROM seals WHERE number > ? AND number <= ?
          ORDER BY number LIMIT 1 OFFSET ?`,
        at?.number ?? 0,
        top.number,
        most - 1,
      )
      .toArray();
    const end = last ?? top;
    this.#sql.exec(
      "UPDATE seals SET linked = 1 WHERE number > ? AND number <= ?",
      at?.number ?? 0,
      end.number,
    );
    return end;
  }

  /**
   * Blocks `b` of a kind up to a seal, in the chain. `where` is trusted text. The plus keeps SQLite
   * from reading all seals instead of the index by `low` or `high`.
   */
  select(
    where: string,
    { kind, newest }: { readonly kind: Kind; readonly newest: SealId },
    params: readonly (number | string)[],
  ): Entry[] {
    return this.#sql
      .exec<Row>(
        `SELECT b.number, b.epoch, b.block FROM blocks b
          CROSS JOIN seals s ON s.number = b.number AND s.epoch = b.epoch AND s.linked = 1
          WHERE b.kind = ? AND +b.number <= ? AND ${where}`,
        kind,
        newest.number,
        ...params,
      )
      .toArray()
      .map(entryOf);
  }

  /** The blocks with entries below a position, the newest first. */
  *below(newest: SealId, before: bigint): Generator<Entry> {
    for (let below = before; ;) {
      const entries = this.select(
        `b.low < CAST(? AS INTEGER) ORDER BY b.low DESC LIMIT ${ROWS_PER_READ}`,
        { kind: "transfers", newest },
        [String(below)],
      );
      for (const entry of entries) {
        below = BigInt(entry.block.low);
        yield entry;
      }
      if (entries.length < ROWS_PER_READ) return;
    }
  }

  textOf(column: "marks" | "amounts", id: SealId, kind: Kind): string {
    const text = this.#valueOf(column, id, kind);
    return typeof text === "string" ? text : "";
  }

  /** Null unless the content is kept here. */
  contentOf(id: SealId, kind: Kind): Uint8Array<ArrayBuffer> | null {
    const content = this.#valueOf("content", id, kind);
    return content instanceof ArrayBuffer ? new Uint8Array(content) : null;
  }

  #valueOf(
    column: "marks" | "amounts" | "content",
    { number, epoch }: SealId,
    kind: Kind,
  ): SqlStorageValue {
    return this.#sql
      .exec<{ value: SqlStorageValue }>(
        `SELECT ${column} AS value FROM blocks WHERE number = ? AND epoch = ? AND kind = ?`,
        number,
        epoch,
        kind,
      )
      .one().value;
  }
}

function entryOf({ number, epoch, block: text }: Row): Entry {
  const [block] = readTable(INDEXED, text);
  if (block === undefined) throw new Error("the index has no block");
  return { id: { number, epoch }, block };
}
