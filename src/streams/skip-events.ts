/** For a restored database: the numbers of events that it has lost are not used again. */
import { type Expr, type Sql, sql } from "../platform/sql.ts";

/** Transfers and stream events skip this many numbers, so that none issued since is reused. */
export const SEQUENCE_JUMP = 1_000_000;

/**
 * Statements that skip numbers of all streams under a condition. The events that a client last saw
 * then count as trimmed, so it receives a resync.
 */
export function skipEvents(when: Expr): Sql[] {
  return [
    sql`UPDATE streams SET last_seq = last_seq + ${SEQUENCE_JUMP},
      pushed_seq = last_seq + ${SEQUENCE_JUMP}, first_seq = last_seq + ${SEQUENCE_JUMP + 1}
      WHERE ${when}`,
    sql`INSERT INTO removed_streams (only, last_seq) SELECT 1, ${SEQUENCE_JUMP} WHERE ${when}
      ON CONFLICT (only) DO UPDATE SET last_seq = last_seq + ${SEQUENCE_JUMP}`,
  ];
}
