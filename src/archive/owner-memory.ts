/**
 * What the sealer remembers of each owner's chain of blocks, in its own storage. It reads the
 * footer of every seal once. So a row of `sealed_owners` that is wrong is noticed before a seal
 * repeats it, which no later seal could undo.
 */
import { inChunks } from "../platform/chunks.ts";
import { expr, listed, scalar, sql } from "../platform/sql.ts";
import { SealMalformed } from "./column-text.ts";
import type { Footer, SealRef } from "./footer.ts";
import { joinEnds, linksIn, type OwnerEnds } from "./owner-ends.ts";
import type { Owner } from "./sealed-columns.ts";
import { readSeals, type SealRow } from "./seal-row.ts";
import { readFooterAt, SealMissing } from "./seal-store.ts";

/** Footers that one call reads, and at once. An object reads a thousand in an invocation. */
const FOOTERS_PER_CALL = 200;
const FOOTERS_AT_ONCE = 10;
/** A value of the storage has at most 2 MB. */
const OWNERS_PER_STATEMENT = 5_000;

type Row = { readonly owner: Owner; readonly ends: string };

export class OwnerMemory {
  readonly #sql: SqlStorage;
  /** Each round compares the rows of the next owners. */
  checkedTo: Owner = "";

  constructor(storage: SqlStorage) {
    this.#sql = storage;
    storage.exec(`CREATE TABLE IF NOT EXISTS owners (
      owner TEXT PRIMARY KEY NOT NULL, ends TEXT NOT NULL) WITHOUT ROWID`);
    // The last seal that was followed, and those before it that could not be read.
    storage.exec(`CREATE TABLE IF NOT EXISTS followed (
      one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL, sha256 TEXT NOT NULL)`);
    storage.exec("CREATE TABLE IF NOT EXISTS unread (number INTEGER PRIMARY KEY)");
  }

  /** The last seal that was followed, or 0. */
  get number(): number {
    return this.#followed()?.number ?? 0;
  }

  /** Seals that could not be read. Each call of `follow` tries them again. */
  get unread(): ReadonlySet<number> {
    const rows = this.#sql.exec<{ number: number }>("SELECT number FROM unread").toArray();
    return new Set(rows.map(({ number }) => number));
  }

  /** Reads what it does not know of the database's seals. Returns whether it knows all of them. */
  async follow(db: D1Database, bucket: Pick<R2Bucket, "get">): Promise<boolean> {
    const known = this.#followed();
    if (known !== undefined && (await sealsOf(db, [known.number]))[0]?.sha256 !== known.sha256)
      this.#forget();
    const last = await scalar<number>(db, expr`SELECT coalesce(max(number), 0) FROM journal_seals`);
    const next = Array.from(
      { length: Math.min(FOOTERS_PER_CALL, last - this.number) },
      (_, place) => this.number + place + 1,
    );
    const seals = await sealsOf(db, [...[...this.unread].slice(0, FOOTERS_AT_ONCE), ...next]);
    for (const some of inChunks(seals, FOOTERS_AT_ONCE)) {
      const footers = await Promise.all(some.map((seal) => footerOf(bucket, seal)));
      some.forEach((seal, place) => this.#add(seal, footers[place]));
    }
    return this.number === last;
  }

  /** Without a footer the seal is unread. The order does not matter. */
  #add(seal: SealRef, footer: Footer | undefined): void {
    const { number, sha256 } = seal;
    const links = footer === undefined ? [] : linksIn(footer);
    const known = this.of(links.map(({ owner }) => owner));
    for (const some of inChunks(links, OWNERS_PER_STATEMENT)) {
      const rows = some.map(({ owner, ends }) => [
        owner,
        JSON.stringify(joinEnds(known.get(owner), ends)),
      ]);
      this.#sql.exec(
        "INSERT OR REPLACE INTO owners SELECT value ->> 0, value ->> 1 FROM json_each(?)",
        JSON.stringify(rows),
      );
    }
    if (footer === undefined)
      this.#sql.exec("INSERT OR IGNORE INTO unread (number) VALUES (?)", number);
    else this.#sql.exec("DELETE FROM unread WHERE number = ?", number);
    if (number > this.number)
      this.#sql.exec("INSERT OR REPLACE INTO followed VALUES (1, ?, ?)", number, sha256);
  }

  of(owners: readonly Owner[]): Map<Owner, OwnerEnds> {
    const rows = this.#sql.exec<Row>(
      "SELECT o.* FROM json_each(?) e CROSS JOIN owners o ON o.owner = e.value",
      JSON.stringify(owners),
    );
    return byOwner(rows.toArray());
  }

  /** Owners after one, in order, up to another one or to the last. */
  between(after: Owner, upTo: Owner | undefined): Map<Owner, OwnerEnds> {
    const rows = this.#sql.exec<Row>(
      "SELECT * FROM owners WHERE owner > ? AND (owner <= ? OR ? = '')",
      after,
      upTo ?? "",
      upTo ?? "",
    );
    return byOwner(rows.toArray());
  }

  #followed(): Omit<SealRef, "epoch"> | undefined {
    const rows = this.#sql.exec<Omit<SealRef, "epoch">>("SELECT number, sha256 FROM followed");
    return rows.toArray()[0];
  }

  /** The database was restored: the last seals are lost. */
  #forget(): void {
    for (const table of ["owners", "followed", "unread"]) this.#sql.exec(`DELETE FROM ${table}`);
  }
}

/** Safe cast: only `#add` writes these texts. */
function byOwner(rows: readonly Row[]): Map<Owner, OwnerEnds> {
  return new Map(rows.map(({ owner, ends }) => [owner, JSON.parse(ends) as OwnerEnds]));
}

function sealsOf(db: D1Database, numbers: readonly number[]): Promise<SealRow[]> {
  return readSeals(db, sql`WHERE number IN (${listed(numbers)}) ORDER BY number`);
}

/** Undefined unless the archive has what the database vouches for. */
async function footerOf(bucket: Pick<R2Bucket, "get">, seal: SealRef): Promise<Footer | undefined> {
  try {
    return await readFooterAt(bucket, seal);
  } catch (error) {
    if (error instanceof SealMissing || error instanceof SealMalformed) return undefined;
    throw error;
  }
}
