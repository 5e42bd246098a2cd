/**
 * The sealed transfers and matches of one owner, as rows that any SELECT reads. They can be rebuilt
 * from the archive and are never the only copy.
 *
 * The database names the last seal with a block of the owner, and each block names the seal before.
 * So the rows are complete if they contain the chain from that seal on, and a seal that a restore
 * has lost is in no chain. Nothing is taken in that D1's hash of its seal does not prove.
 */
import { reasonNumber } from "../ledger/codes.ts";
import { all, expr, holds, type Sql, sql, uuids } from "../platform/sql.ts";
import { SealMalformed } from "./column-text.ts";
import { previousOf, type SealId } from "./footer.ts";
import { type FoundSeal, HistoryTables, type TakenRows, type Way } from "./history-tables.ts";
import type { Kind, Owner, SealedRow } from "./sealed-columns.ts";
import { openBlock } from "./seal-format.ts";
import { readSeals } from "./seal-row.ts";
import { readBlock, readFooterAt, SealMissing } from "./seal-store.ts";

/** Where the archive's objects are, and the database that vouches for them. */
export type ArchiveSource = {
  readonly db: D1Database;
  readonly bucket: Pick<R2Bucket, "get">;
};

/** What one call reads of seals that are new to it. The alarm continues. */
export type FollowLimits = {
  readonly footers: number;
  /** Rows that it takes in, unless one seal has more. */
  readonly rows: number;
};
const LIMITS: FollowLimits = { footers: 200, rows: 20_000 };

export type HistoryRows = readonly Readonly<Record<string, SqlStorageValue>>[];

/** The history lacks seals. Further calls complete it. */
export class HistoryBehind extends Error {
  constructor(owner: Owner) {
    super(`the history of ${owner} is behind`);
    this.name = "HistoryBehind";
  }
}

export class OwnHistory {
  readonly #tables: HistoryTables;
  readonly #storage: Pick<DurableObjectStorage, "sql" | "transactionSync">;
  readonly #source: ArchiveSource;
  readonly #limits: FollowLimits;
  /** One at a time, because each keeps its place in the tables. */
  #extension: Promise<void> | undefined;

  constructor(
    storage: Pick<DurableObjectStorage, "sql" | "transactionSync">,
    source: ArchiveSource,
    limits: Partial<FollowLimits> = {},
  ) {
    this.#tables = new HistoryTables(storage);
    this.#storage = storage;
    this.#source = source;
    this.#limits = { ...LIMITS, ...limits };
  }

  /** The rows of each SELECT, once everything up to this seal is here. They see one state. */
  async query(owner: Owner, newest: SealId, statements: readonly Sql[]): Promise<HistoryRows[]> {
    await this.follow(owner, newest);
    return statements.map(({ text, params }) => this.#storage.sql.exec(text, ...params).toArray());
  }

  /** Takes in the seals up to this one. Throws `HistoryBehind` if a call was not enough. */
  async follow(owner: Owner, newest: SealId): Promise<void> {
    await this.#forgetLost(newest);
    while (!this.#tables.isTaken(newest)) {
      this.#extension ??= this.#extend(owner, newest).finally(() => {
        this.#extension = undefined;
      });
      await this.#extension;
    }
  }

  /** Continues what an earlier call did not finish. Whether that is done. */
  async resume(): Promise<boolean> {
    const way = this.#tables.way();
    try {
      if (way !== null) await this.follow(way.owner, way.top);
      return true;
    } catch (error) {
      if (error instanceof HistoryBehind) return false;
      throw error;
    }
  }

  /** A later seal was stored since the reader asked for the newest one, or a restore has lost it. */
  async #forgetLost({ number }: SealId): Promise<void> {
    const later = this.#tables.takenAbove(number);
    if (later === undefined) return;
    const known = expr`EXISTS (SELECT 1 FROM journal_seals
      WHERE number = ${later.number} AND epoch = ${later.epoch})`;
    if (!(await holds(this.#source.db, known))) this.#tables.forgetAbove(number);
  }

  /** Down the chain to a seal that was taken in, or to the first one, then up again with the rows. */
  async #extend(owner: Owner, newest: SealId): Promise<void> {
    const way = this.#tables.way() ?? this.#begin({ owner, top: newest, at: newest, ended: false });
    try {
      if (!way.ended) await this.#descend(way);
      await this.#takeFound(way.owner);
    } catch (error) {
      // A restore may have lost what was reached. After a failed read the next call continues.
      if (error instanceof SealMalformed || error instanceof SealMissing) this.#tables.endWay();
      throw error;
    }
    this.#tables.endWay();
  }

  #begin(way: Way): Way {
    this.#tables.endWay();
    return this.#tables.keep(way);
  }

  async #descend(begun: Way): Promise<void> {
    let way = begun;
    for (let footers = 0; way.at !== null && !this.#tables.isTaken(way.at); footers++) {
      if (footers === this.#limits.footers) throw new HistoryBehind(way.owner);
      const seal = await this.#find(way.owner, way.at);
      this.#tables.addFound(seal);
      const [first] = seal.blocks;
      way = this.#tables.keep({ ...way, at: first === undefined ? null : previousOf(first) });
    }
    // What was taken in above is in no chain any more.
    this.#tables.forgetAbove(way.at?.number ?? 0);
    this.#tables.keep({ ...way, ended: true });
  }

  /** The owner's blocks of a seal, from the seal's footer. */
  async #find(owner: Owner, id: SealId): Promise<FoundSeal> {
    const { db, bucket } = this.#source;
    const [row] = await readSeals(db, sql`WHERE number = ${id.number} AND epoch = ${id.epoch}`);
    if (row === undefined) throw new SealMalformed("the database has no such seal");
    const footer = await readFooterAt(bucket, row);
    const blocks = footer.blocks.filter((block) => block.owner === owner);
    if (blocks.length === 0) throw new SealMalformed("the seal has no block of the owner");
    return { id, blocks };
  }

  async #takeFound(owner: Owner): Promise<void> {
    let rows = 0;
    for (let seal = this.#tables.nextFound(); seal !== undefined;) {
      if (rows >= this.#limits.rows) throw new HistoryBehind(owner);
      const taken = await this.#rowsOf(seal);
      this.#tables.take(owner, seal, taken);
      rows += taken.transfers.length + taken.matches.length;
      seal = this.#tables.nextFound();
    }
  }

  async #rowsOf(seal: FoundSeal): Promise<TakenRows> {
    const [transfers, matches] = await Promise.all([
      this.#blockOf("transfers", seal),
      this.#blockOf("matches", seal),
    ]);
    const deposits = transfers.filter(({ reason }) => reason === reasonNumber("deposit"));
    return { transfers, matches, hashes: await this.#hashesOf(deposits.map(({ ref }) => ref)) };
  }

  async #blockOf<K extends Kind>(kind: K, { id, blocks }: FoundSeal): Promise<SealedRow<K>[]> {
    const block = blocks.find((one) => one.kind === kind);
    if (block === undefined) return [];
    return openBlock(kind, await readBlock(this.#source.bucket, id, block), block);
  }

  /** The transactions of deposits, which seals do not name. A deposit that is money never changes. */
  async #hashesOf(deposits: readonly string[]): Promise<Map<string, string>> {
    if (deposits.length === 0) return new Map();
    const rows = await all<{ id: string; hash: string }>(
      this.#source.db,
      sql`SELECT lower(hex(deposit_id)) AS id, hex(transaction_hash) AS hash FROM deposits
        WHERE deposit_id IN (${uuids(deposits)})`,
    );
    return new Map(rows.map(({ id, hash }) => [id, hash]));
  }
}
