/** Lists the caller's deposits, newest first. */
import {
  fetchCount,
  olderThan,
  type Page,
  pageOf,
  type PageQuery,
  type TimeId,
} from "../http/cursor.ts";
import { all, raw, readUuid, select, type Sql, sql, uuid } from "../platform/sql.ts";
import { DEPOSIT, type DepositRow, depositView } from "./payment-records.ts";
import type { ListedDepositStatus } from "./column-values.ts";

type Query = PageQuery<TimeId> & { status?: ListedDepositStatus | undefined };

export async function listDeposits(
  db: D1Database,
  userId: string,
  query: Query,
): Promise<Page<ReturnType<typeof depositView>>> {
  const rows = await all<DepositRow>(db, pageSql(userId, query));
  return pageOf(query, rows, depositView, (row) => ({
    at: row.detected_at,
    id: readUuid(row.deposit_id),
  }));
}

/** Each part reads at most a page from its index. A deposit that moves keeps its instant and id. */
function pageSql(userId: string, query: Query): Sql {
  const newest = sql`ORDER BY detected_at DESC, deposit_id DESC LIMIT ${fetchCount(query)}`;
  const part = (table: "deposits" | "small_deposit_records", status: Sql) =>
    sql`SELECT ${select(DEPOSIT)} FROM ${raw(table)} d WHERE d.user_id = ${uuid(userId)}
      AND ${status} AND ${olderThan(query, { at: "d.detected_at", id: "d.deposit_id" })}
      ORDER BY d.detected_at DESC, d.deposit_id DESC LIMIT ${fetchCount(query)}`;
  const { status } = query;
  if (status === "below_minimum") return part("small_deposit_records", sql`1`);
  if (status !== undefined) return part("deposits", sql`d.status = ${status}`);
  return sql`SELECT * FROM (${part("deposits", sql`1`)})
    UNION ALL SELECT * FROM (${part("small_deposit_records", sql`1`)}) ${newest}`;
}
