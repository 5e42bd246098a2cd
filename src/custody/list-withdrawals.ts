/** Reads the caller's withdrawals: a page of them, newest first, or one by either of its ids. */
import {
  fetchCount,
  olderThan,
  type Page,
  pageOf,
  type PageQuery,
  type TimeId,
} from "../http/cursor.ts";
import { problem } from "../platform/problem.ts";
import { all, first, readUuid, select, sql, uuid } from "../platform/sql.ts";
import { WITHDRAWAL, type WithdrawalRow, withdrawalView } from "./payment-records.ts";
import type { WithdrawalStatus } from "./column-values.ts";

export async function listWithdrawals(
  db: D1Database,
  userId: string,
  query: PageQuery<TimeId> & { status?: WithdrawalStatus | undefined },
): Promise<Page<ReturnType<typeof withdrawalView>>> {
  const status = query.status === undefined ? sql`1` : sql`w.status = ${query.status}`;
  const rows = await all<WithdrawalRow>(
    db,
    sql`SELECT ${select(WITHDRAWAL)} FROM withdrawals w WHERE w.user_id = ${uuid(userId)}
      AND ${status} AND ${olderThan(query, { at: "w.created_at", id: "w.withdrawal_id" })}
      ORDER BY w.created_at DESC, w.withdrawal_id DESC LIMIT ${fetchCount(query)}`,
  );
  return pageOf(query, rows, withdrawalView, (row) => ({
    at: row.created_at,
    id: readUuid(row.withdrawal_id),
  }));
}

export type WithdrawalLookup = {
  readonly withdrawal_id?: string | undefined;
  readonly client_withdrawal_id?: string | undefined;
};

/** Throws `withdrawal_unknown` for another user's withdrawal as for one that does not exist. */
export async function findWithdrawal(
  db: D1Database,
  userId: string,
  { withdrawal_id: id, client_withdrawal_id: clientId }: WithdrawalLookup,
): Promise<WithdrawalRow> {
  const matches =
    id === undefined
      ? sql`w.client_withdrawal_id = ${clientId ?? ""}`
      : sql`w.withdrawal_id = ${uuid(id)}`;
  const row = await first<WithdrawalRow>(
    db,
    sql`SELECT ${select(WITHDRAWAL)} FROM withdrawals w
      WHERE w.user_id = ${uuid(userId)} AND ${matches}`,
  );
  if (row === undefined) throw problem("withdrawal_unknown", "You have no such withdrawal.");
  return row;
}
