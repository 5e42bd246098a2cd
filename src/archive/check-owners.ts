/** Compares `sealed_owners` with what the sealer remembers, and writes it anew from that. */
import { inChunks } from "../platform/chunks.ts";
import { batch, type Sql, sql, uuids } from "../platform/sql.ts";
import type { SealId } from "./footer.ts";
import { type OwnerEnds, rowDiffers, ownerEndsText } from "./owner-ends.ts";
import type { OwnerMemory } from "./owner-memory.ts";
import type { Owner } from "./sealed-columns.ts";
import { readOwnerRows } from "./seal-row.ts";

/** Rows of one statement, which takes D1 some 10 ms. */
const OWNERS_PER_PAGE = 5_000;

/** A row of `sealed_owners` contradicts the archive. */
export class OwnersDiffer extends Error {
  constructor({ owner, row, known }: Found) {
    super(
      `sealed_owners states of ${owner} ${ownerEndsText(row)}; the archive has ${ownerEndsText(known)}. ` +
        "Find out who changed it (journal verify), then: journal mend",
    );
    this.name = "OwnersDiffer";
  }
}

type Found = {
  readonly owner: Owner;
  readonly row: OwnerEnds | undefined;
  readonly known: OwnerEnds | undefined;
};

/** The seal before with a block of each owner that has one. Throws `OwnersDiffer`. */
export async function linksOf(
  db: D1Database,
  memory: OwnerMemory,
  owners: readonly Owner[],
): Promise<Map<Owner, SealId>> {
  const links = new Map<Owner, SealId>();
  for (const some of inChunks(owners, OWNERS_PER_PAGE)) {
    const rows = await rowsOf(db, memory, sql`o.owner IN (${uuids(some)})`);
    throwFirst(differences(rows, memory.of(some), memory));
    for (const [owner, { last }] of rows) links.set(owner, last);
  }
  return links;
}

/** Compares a page of all rows. Returns where the next one begins. Throws `OwnersDiffer`. */
export async function checkPage(db: D1Database, memory: OwnerMemory, after: Owner): Promise<Owner> {
  const { found, next } = await comparePage(db, memory, after);
  throwFirst(found);
  return next;
}

/** Writes the rows that differ, as the archive has them. Returns their owners. */
export async function mendOwners(db: D1Database, memory: OwnerMemory): Promise<Owner[]> {
  const mended: Owner[] = [];
  let after: Owner = "";
  do {
    const { found, next } = await comparePage(db, memory, after);
    if (found.length > 0) await batch(db, mends(found));
    mended.push(...found.map(({ owner }) => owner));
    after = next;
  } while (after !== "");
  return mended;
}

async function comparePage(
  db: D1Database,
  memory: OwnerMemory,
  after: Owner,
): Promise<{ found: Found[]; next: Owner }> {
  const page = sql`o.owner > unhex(${after}) ORDER BY o.owner LIMIT ${OWNERS_PER_PAGE}`;
  const rows = await rowsOf(db, memory, page);
  const upTo = rows.size < OWNERS_PER_PAGE ? undefined : [...rows.keys()].at(-1);
  const found = differences(rows, memory.between(after, upTo), memory);
  return { found, next: upTo ?? "" };
}

/** They are of the seal that the memory knows, or another sealer has stored one meanwhile. */
async function rowsOf(
  db: D1Database,
  memory: OwnerMemory,
  which: Sql,
): Promise<Map<Owner, OwnerEnds>> {
  const { seal, owners } = await readOwnerRows(db, which);
  if (seal !== memory.number) throw new Error(`seal ${seal} was stored by another sealer`);
  return new Map(owners.map(({ owner, ends }) => [owner, ends]));
}

function differences(
  rows: ReadonlyMap<Owner, OwnerEnds>,
  known: ReadonlyMap<Owner, OwnerEnds>,
  { unread }: OwnerMemory,
): Found[] {
  return [...new Set([...rows.keys(), ...known.keys()])].flatMap((owner) => {
    const found = { owner, row: rows.get(owner), known: known.get(owner) };
    return rowDiffers(found.row, found.known, unread) ? [found] : [];
  });
}

function throwFirst([found]: readonly Found[]): void {
  if (found !== undefined) throw new OwnersDiffer(found);
}

function mends(found: readonly Found[]): Sql[] {
  const rows = found.flatMap(({ owner, known }) => {
    if (known === undefined) return [];
    const { first, last, requestAt, quoteAt, matchAt } = known;
    return [[owner, first, last.number, requestAt, quoteAt, matchAt]];
  });
  return [
    sql`INSERT OR IGNORE INTO owner_mends (one) VALUES (1)`,
    sql`DELETE FROM sealed_owners WHERE owner IN (${uuids(found.map(({ owner }) => owner))})`,
    sql`INSERT INTO sealed_owners (owner, first_seal, last_seal, last_request_at, last_quote_at,
        last_match_at)
      SELECT unhex(value ->> 0), value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5
      FROM json_each(${JSON.stringify(rows)})`,
    sql`DELETE FROM owner_mends`,
  ];
}
