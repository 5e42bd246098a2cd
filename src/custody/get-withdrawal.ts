/** Reads one of the caller's withdrawals by either of its ids. */
import { problem } from "../platform/problem.ts";
import { first, type Sql, sql, uuid } from "../platform/sql.ts";
import { WITHDRAWAL_COLUMNS, type WithdrawalRow, withdrawalView } from "./records.ts";

export type WithdrawalLookup = {
  readonly withdrawal_id?: string | undefined;
  readonly client_withdrawal_id?: string | undefined;
};

/** Throws `withdrawal_unknown` for another user's withdrawal as for one that does not exist. */
export async function getWithdrawal(
  db: D1Database,
  userId: string,
  lookup: WithdrawalLookup,
): Promise<ReturnType<typeof withdrawalView>> {
  const matches: Sql =
    lookup.withdrawal_id === undefined
      ? sql`w.client_withdrawal_id = ${lookup.client_withdrawal_id ?? ""}`
      : sql`w.withdrawal_id = ${uuid(lookup.withdrawal_id)}`;
  const row = await first<WithdrawalRow>(
    db,
    sql`SELECT ${WITHDRAWAL_COLUMNS} FROM withdrawals w
      WHERE w.user_id = ${uuid(userId)} AND ${matches}`,
  );
  if (row === undefined) throw problem("withdrawal_unknown", "You have no such withdrawal.");
  return withdrawalView(row);
}
