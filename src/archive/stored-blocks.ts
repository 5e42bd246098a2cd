/** The tables of one owner's index: the chain of seals, and what footers state of each block. */
import { readTable, writeTable } from "./column-text.ts";
import { BLOCK, type FooterBlock, PLACE, previousOf, type SealId } from "./footer.ts";
import type { Kind } from "./sealed-columns.ts";

/** A block of records, by the newest that it contains, then by its seal. */
export type BlockPosition = { readonly at: number; readonly number: number };

/** A block of the owner, and the seal that contains it. */
export type Entry = { readonly id: SealId; readonly block: FooterBlock };

const INDEXED = { ...BLOCK, ...PLACE };

/** Rows of one read of the index. */
const ROWS_PER_READ = 100;

type Row = { readonly number: number; readonly epoch: number; readonly block: string };

/** A way down the chain that takes more than one call: from `top`, and now at `at`; null: ended. */
export type BlockScan = {
  readonly owner: string;
  readonly top: SealId;
  readonly at: SealId | null;
};

export class StoredBlocks {
  readonly #sql: SqlStorage;

  constructor(storage: SqlStorage) {
    this.#sql = storage;
    // Seals with blocks of the owner. `linked`: the chain from this one to the first is complete.
    storage.exec(`CREATE TABLE IF NOT EXISTS seals (
      number INTEGER NOT NULL, epoch INTEGER NOT NULL, linked INTEGER NOT NULL,
      PRIMARY KEY (number, epoch)) WITHOUT ROWID`);
    // `content`: of small blocks. SQLite reads the last columns only if they are selected.
    storage.exec(`CREATE TABLE IF NOT EXISTS blocks (
      number INTEGER NOT NULL, epoch INTEGER NOT NULL, kind TEXT NOT NULL, low INTEGER NOT NULL,
      high INTEGER NOT NULL, block TEXT NOT NULL, marks TEXT, amounts TEXT, content BLOB,
      PRIMARY KEY (number, epoch, kind))`);
    storage.exec("CREATE INDEX IF NOT EXISTS blocks_by_low ON blocks (kind, low)");
    storage.exec("CREATE INDEX IF NOT EXISTS blocks_by_high ON blocks (kind, high, number)");
    // The scan that the last call could not end.
    storage.exec(`CREATE TABLE IF NOT EXISTS scans (
      one INTEGER PRIMARY KEY CHECK (one = 1), scan TEXT NOT NULL)`);
  }

  isLinked({ number, epoch }: SealId): boolean {
    const text = "SELECT 1 FROM seals WHERE number = ? AND epoch = ? AND linked = 1";
    return this.#sql.exec(text, number, epoch).toArray().length > 0;
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

  scan(): BlockScan | null {
    const [row] = this.#sql.exec<{ scan: string }>("SELECT scan FROM scans").toArray();
    // Safe cast: only `#keep` writes these texts.
    return row === undefined ? null : (JSON.parse(row.scan) as BlockScan);
  }

  #keep(scan: BlockScan): BlockScan {
    this.#sql.exec("INSERT OR REPLACE INTO scans VALUES (1, ?)", JSON.stringify(scan));
    return scan;
  }

  /** What a scan left that could not be ended may be of lost seals. */
  begin(scan: BlockScan): BlockScan {
    this.#delete("linked = 0");
    return this.#keep(scan);
  }

  /** The owner's blocks of a seal. Those with a content are kept for readers. */
  add(
    scan: BlockScan,
    { number, epoch }: SealId,
    blocks: readonly {
      readonly block: FooterBlock;
      readonly content: Uint8Array<ArrayBuffer> | null;
    }[],
  ): BlockScan {
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
    this.#sql.exec("INSERT OR IGNORE INTO seals VALUES (?, ?, 0)", number, epoch);
    const [first] = blocks;
    return this.#keep({ ...scan, at: first === undefined ? null : previousOf(first.block) });
  }

  /** Links what a scan has added above a linked seal. Others above that are lost. */
  link({ at }: BlockScan): void {
    this.#delete(`linked = 1 AND number > ${at?.number ?? 0}`);
    this.#sql.exec("UPDATE seals SET linked = 1 WHERE linked = 0");
    this.end();
  }

  end(): void {
    this.#sql.exec("DELETE FROM scans");
  }

  #delete(where: string): void {
    this.#sql.exec(
      `DELETE FROM blocks WHERE (number, epoch) IN (SELECT number, epoch FROM seals WHERE ${where})`,
    );
    this.#sql.exec(`DELETE FROM seals WHERE ${where}`);
  }

  /** The blocks with entries below a position, the newest first. */
  *below(newest: SealId, before: bigint): Generator<Entry> {
    let below = before;
    for (const entry of this.#pages("transfers", newest, () => ({
      where: "b.low < CAST(? AS INTEGER) ORDER BY b.low DESC",
      params: [String(below)],
    }))) {
      below = BigInt(entry.block.low);
      yield entry;
    }
  }

  /** The blocks with records of a period, by the newest that they contain, from one of them on. */
  *withRecords(
    kind: Kind,
    newest: SealId,
    [from, until]: readonly [number, number],
    first: BlockPosition | null,
  ): Generator<Entry> {
    const { at, number } = first ?? { at: Number.MAX_SAFE_INTEGER, number: 0 };
    let last = [at, number + 1];
    for (const entry of this.#pages(kind, newest, () => ({
      where: `b.low <= ? AND b.high >= ? AND (b.high, b.number) < (?, ?)
        ORDER BY b.high DESC, b.number DESC`,
      params: [until, from, ...last],
    }))) {
      last = [entry.block.high, entry.id.number];
      yield entry;
    }
  }

  /**
   * Blocks `b` of a kind up to a seal, in the chain, page by page. `where` is trusted text. The
   * plus keeps SQLite from reading all seals instead of the index by `low` or `high`.
   */
  *#pages(
    kind: Kind,
    { number }: SealId,
    next: () => { readonly where: string; readonly params: readonly (number | string)[] },
  ): Generator<Entry> {
    for (let more = true; more;) {
      const { where, params } = next();
      const rows = this.#sql
        .exec<Row>(
          `SELECT b.number, b.epoch, b.block FROM blocks b
            CROSS JOIN seals s ON s.number = b.number AND s.epoch = b.epoch AND s.linked = 1
            WHERE b.kind = ? AND +b.number <= ? AND ${where} LIMIT ${ROWS_PER_READ}`,
          kind,
          number,
          ...params,
        )
        .toArray();
      yield* rows.map(entryOf);
      more = rows.length === ROWS_PER_READ;
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
