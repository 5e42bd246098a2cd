/** Lists the caller's withdrawals, newest first. */
import {
  fetchCount,
  olderThan,
  type Page,
  pageOf,
  type PageQuery,
  type TimeId,
} from "../http/cursor.ts";
import { all, raw, readUuid, sql, uuid } from "../platform/sql.ts";
import {
  WITHDRAWAL_COLUMNS,
  type WithdrawalRow,
  type WithdrawalStatus,
  withdrawalView,
} from "./records.ts";

export async function listWithdrawals(
  db: D1Database,
  userId: string,
  query: PageQuery<TimeId> & { status?: WithdrawalStatus | undefined },
): Promise<Page<ReturnType<typeof withdrawalView>>> {
  const rows = await all<WithdrawalRow>(
    db,
    sql`SELECT ${WITHDRAWAL_COLUMNS} FROM withdrawals w INDEXED BY withdrawals_user
      WHERE w.user_id = ${uuid(userId)}
      AND ${olderThan(query, { at: "w.created_at", id: "w.withdrawal_id" })}
      AND ${query.status === undefined ? raw("1") : sql`w.status = ${query.status}`}
      ORDER BY w.created_at DESC, w.withdrawal_id DESC LIMIT ${fetchCount(query)}`,
  );
  return pageOf(query, rows, withdrawalView, (row) => ({
    at: row.created_at,
    id: readUuid(row.withdrawal_id),
  }));
}
