/** Lists the caller's deposits, newest first. */
import {
  fetchCount,
  olderThan,
  type Page,
  pageOf,
  type PageQuery,
  type TimeId,
} from "../http/cursor.ts";
import { all, raw, readUuid, sql, uuid } from "../platform/sql.ts";
import { DEPOSIT_COLUMNS, type DepositRow, type DepositStatus, depositView } from "./records.ts";

export async function listDeposits(
  db: D1Database,
  userId: string,
  query: PageQuery<TimeId> & { status?: DepositStatus | undefined },
): Promise<Page<ReturnType<typeof depositView>>> {
  const rows = await all<DepositRow>(
    db,
    sql`SELECT ${DEPOSIT_COLUMNS} FROM deposits d INDEXED BY deposits_user
      WHERE d.user_id = ${uuid(userId)}
      AND ${olderThan(query, { at: "d.detected_at", id: "d.deposit_id" })}
      AND ${query.status === undefined ? raw("1") : sql`d.status = ${query.status}`}
      ORDER BY d.detected_at DESC, d.deposit_id DESC LIMIT ${fetchCount(query)}`,
  );
  return pageOf(query, rows, depositView, (row) => ({
    at: row.detected_at,
    id: readUuid(row.deposit_id),
  }));
}
