/** Lists the caller's withdrawals, newest first. */
import { and, desc, eq } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import {
  afterCursor,
  fetchCount,
  type Page,
  pageOf,
  type PageQuery,
  type TimeId,
} from "../http/cursor.ts";
import { fields, read } from "../platform/read.ts";
import { readUuid } from "../platform/sql.ts";
import { WITHDRAWAL, type WithdrawalRow, withdrawalView } from "./payment-records.ts";
import { withdrawals, type WithdrawalStatus } from "./tables.ts";

const w = alias(withdrawals, "w");

export async function listWithdrawals(
  db: D1Database,
  userId: string,
  query: PageQuery<TimeId> & { status?: WithdrawalStatus | undefined },
): Promise<Page<ReturnType<typeof withdrawalView>>> {
  const status = query.status === undefined ? undefined : eq(w.status, query.status);
  const older = afterCursor(query, { at: w.createdAt, id: w.withdrawalId });
  const rows = await read(db, ({ select }) =>
    select(fields<WithdrawalRow>(WITHDRAWAL))
      .from(w)
      .where(and(eq(w.userId, userId), status, older))
      .orderBy(desc(w.createdAt), desc(w.withdrawalId))
      .limit(fetchCount(query)),
  );
  return pageOf(query, rows, withdrawalView, (row) => ({
    at: row.created_at,
    id: readUuid(row.withdrawal_id),
  }));
}
