/** Orphans deposits whose block has left the chain before they were confirmed. */
import type { Group } from "../../platform/commit.ts";
import { type Sql, sql } from "../../platform/sql.ts";

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
