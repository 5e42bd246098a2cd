/**
 * Stores how far a chain has been read. Every write that depends on blocks is in the batch that
 * moves the cursor, so it takes effect at most once.
 */
import type { Group } from "../platform/commit.ts";
import { all, blob, first, raw, type Sql, sql } from "../platform/sql.ts";
import type { Block } from "./follow-head.ts";

export type Cursor = {
  /** Deposits and vault events up to this block have been applied. */
  readonly confirmed: Block;
  /** Deposits up to this block have been detected. Never below `confirmed`. */
  readonly scanned: Block;
  /** The head at the last reading. Never below `confirmed`, because an endpoint may fall behind. */
  readonly headNumber: number;
  /** When the cursor last moved, in Unix milliseconds by D1's clock. */
  readonly movedAt: number;
  readonly haltedAt: number | null;
  readonly haltReason: string | null;
  /** Blocks up to this one were checked again a day later. */
  readonly recheckedNumber: number | null;
};

type CursorRow = Omit<Cursor, "confirmed" | "scanned"> & Record<"confirmed" | "scanned", string>;

export async function readCursor(db: D1Database, chain: string): Promise<Cursor | undefined> {
  const block = (name: "confirmed" | "scanned") =>
    raw(`json_object('number', ${name}_number, 'hash', '0x' || lower(hex(${name}_hash)))`);
  const row = await first<CursorRow>(
    db,
    sql`SELECT ${block("confirmed")} AS confirmed, ${block("scanned")} AS scanned,
        head_number AS headNumber, moved_at AS movedAt, halted_at AS haltedAt,
        halt_reason AS haltReason, rechecked_number AS recheckedNumber
      FROM chain_cursors WHERE chain = ${chain}`,
  );
  // Safe cast: the texts are JSON objects with the members of a block.
  const blockIn = (text: string) => JSON.parse(text) as Block;
  return row && { ...row, confirmed: blockIn(row.confirmed), scanned: blockIn(row.scanned) };
}

/** Blocks that are read at once. While crediting waits, many thousands may be stored. */
const BLOCKS_PER_READ = 300;

/** The highest scanned blocks between two heights, highest first. A changed hash shows a reorg. */
export function readBlocks(
  db: D1Database,
  chain: string,
  { above, below }: { readonly above: number; readonly below: number },
): Promise<Block[]> {
  return all<Block>(
    db,
    sql`SELECT number, '0x' || lower(hex(hash)) AS hash FROM chain_blocks
      WHERE chain = ${chain} AND number > ${above} AND number < ${below}
      ORDER BY number DESC LIMIT ${BLOCKS_PER_READ}`,
  );
}

/** Starts a new chain at `start`, the parent of the first block to read. */
export function insertCursor(group: Group, chain: string, start: Block): Sql {
  return sql`INSERT INTO chain_cursors (chain, confirmed_number, confirmed_hash,
      scanned_number, scanned_hash, head_number, moved_group, moved_at)
    SELECT ${chain}, ${start.number}, ${blob(start.hash)},
      ${start.number}, ${blob(start.hash)}, ${start.number}, ${group.seq}, ${group.at}
    WHERE NOT EXISTS (SELECT 1 FROM chain_cursors WHERE chain = ${chain})`;
}

/** Guard of a group that follows the head. Applies only if the cursor has not moved since `was`. */
export function moveScanned(
  group: Group,
  chain: string,
  was: Cursor,
  to: { readonly scanned: Block; readonly headNumber: number },
): Sql {
  return sql`UPDATE chain_cursors SET scanned_number = ${to.scanned.number},
    scanned_hash = ${blob(to.scanned.hash)},
      head_number = max(confirmed_number, ${to.headNumber}), moved_group = ${group.seq}, moved_at = ${group.at}
    WHERE ${isAt(chain, was)} RETURNING 1 AS moved`;
}

/** Guard of a group that confirms blocks. Applies only if the cursor has not moved since `was`. */
export function moveConfirmed(group: Group, chain: string, was: Cursor, to: Block): Sql {
  return sql`UPDATE chain_cursors SET
      confirmed_number = ${to.number}, confirmed_hash = ${blob(to.hash)},
      scanned_hash = iif(scanned_number <= ${to.number}, ${blob(to.hash)}, scanned_hash),
      scanned_number = max(scanned_number, ${to.number}),
      head_number = max(head_number, ${to.number}),
      moved_group = ${group.seq}, moved_at = ${group.at}
    WHERE ${isAt(chain, was)} RETURNING 1 AS moved`;
}

/** Condition for the statements that depend on the guard: this group has moved the cursor. */
export function movedBy(group: Group, chain: string): Sql {
  return sql`EXISTS (
    SELECT 1 FROM chain_cursors WHERE chain = ${chain} AND moved_group = ${group.seq})`;
}

/** Replaces the blocks above a height by those just scanned. */
export function storeBlocks(
  chain: string,
  above: number,
  blocks: readonly Block[],
  when: Sql,
): Sql[] {
  const rows = JSON.stringify(blocks.map(({ number, hash }) => ({ number, hash: hash.slice(2) })));
  return [
    sql`DELETE FROM chain_blocks WHERE chain = ${chain} AND number > ${above} AND ${when}`,
    sql`INSERT INTO chain_blocks (chain, number, hash)
      SELECT ${chain}, j.value ->> 'number', unhex(j.value ->> 'hash')
      FROM json_each(${rows}) j WHERE ${when}`,
  ];
}

export function deleteBlocks(chain: string, upTo: number, when: Sql): Sql {
  return sql`DELETE FROM chain_blocks WHERE chain = ${chain} AND number <= ${upTo} AND ${when}`;
}

function isAt(chain: string, was: Cursor): Sql {
  return sql`chain = ${chain} AND halted_at IS NULL
    AND confirmed_number = ${was.confirmed.number} AND confirmed_hash = ${blob(was.confirmed.hash)}
    AND scanned_number = ${was.scanned.number} AND scanned_hash = ${blob(was.scanned.hash)}`;
}
