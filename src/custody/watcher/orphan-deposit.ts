import type { Group } from "../../platform/commit.ts";
import { type Sql, sql } from "../../platform/sql.ts";

/**
 * Deposits that were in the given blocks and are not any more: the batch has just written what those blocks hold now,
 * so whatever it did not stamp has left the chain. The row stays; found again, it is the same deposit.
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
    WHERE chain = ${blocks.chain} AND status = 'confirming' AND confirmed_group IS NULL AND seen_group <> ${group.seq}
      AND block_number > ${blocks.above} AND (${blocks.upTo} IS NULL OR block_number <= ${blocks.upTo}) AND ${blocks.when}`;
}
