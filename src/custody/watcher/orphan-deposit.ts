/** Orphans deposits whose block has left the chain before they were confirmed. */
import { type Group, NOW } from "../../platform/commit.ts";
import { all, type Sql, sql } from "../../platform/sql.ts";

/**
 * Limit of a chain's deposits that are not confirmed or were orphaned lately. An endpoint can
 * invent any number of them, and anyone can cause them where a reorg drops them again. Beyond it a
 * new deposit is recorded only at the confirmed height, which credits it in the same batch.
 */
export const MAX_UNCONFIRMED = 5_000;
/** An orphaned deposit counts for this time, so that one flood does not hide new ones for longer. */
const COUNTED_MS = 86_400_000;
/** After this time since its detection an orphaned deposit is deleted. */
const ORPHANED_MS = 7 * 86_400_000;
/** Rows that one batch deletes. */
const ROWS_PER_TRIM = 1_000;

/**
 * Statement that orphans the deposits of a block range that the latest reading did not find. The
 * same batch has stamped the ones it found. The row stays, because a transaction that is mined
 * again is the same deposit.
 */
export function orphanUnseen(
  group: Group,
  blocks: {
    readonly chain: string;
    readonly above: number;
    readonly upTo: number | null;
    readonly when: Sql;
  },
): Sql {
  return sql`UPDATE deposits SET status = 'orphaned', ended_group = ${group.seq}
    WHERE chain = ${blocks.chain} AND status = 'confirming' AND confirmed_group IS NULL
      AND seen_group <> ${group.seq} AND block_number > ${blocks.above}
      AND (${blocks.upTo} IS NULL OR block_number <= ${blocks.upTo}) AND ${blocks.when}`;
}

/** How many new deposits above the confirmed height may be recorded now. */
export async function roomForUnconfirmed(db: D1Database, chain: string): Promise<number> {
  const [row] = await all<{ n: number }>(
    db,
    sql`SELECT (SELECT count(*) FROM deposits INDEXED BY deposits_open
        WHERE chain = ${chain} AND status = 'confirming')
      + (SELECT count(*) FROM deposits INDEXED BY deposits_orphaned
        WHERE chain = ${chain} AND status = 'orphaned'
          AND detected_at >= ${NOW} - ${COUNTED_MS}) AS n`,
  );
  return Math.max(0, MAX_UNCONFIRMED - (row?.n ?? 0));
}

/**
 * Statement that deletes old orphaned deposits, but none whose last group is still kept, because
 * the reconciliation compares those with their events.
 */
export function trimOrphaned(chain: string): Sql {
  return sql`DELETE FROM deposits WHERE deposit_id IN (
    SELECT deposit_id FROM deposits INDEXED BY deposits_orphaned
    WHERE chain = ${chain} AND status = 'orphaned' AND detected_at < ${NOW} - ${ORPHANED_MS}
      AND ended_group < (SELECT min(seq) FROM commit_groups)
    LIMIT ${ROWS_PER_TRIM})`;
}
