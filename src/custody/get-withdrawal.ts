import { problem } from "../platform/problem.ts";
import { first, type Sql, sql, uuid } from "../platform/sql.ts";
import { WITHDRAWAL_COLUMNS, type WithdrawalRow, withdrawalView } from "./records.ts";

export type WithdrawalLookup = {
  readonly withdrawal_id?: string | undefined;
  readonly client_withdrawal_id?: string | undefined;
};

/** Another user's withdrawal is as unknown as one that never was. */
export async function getWithdrawal(
  db: D1Database,
  userId: string,
  name: WithdrawalLookup,
): Promise<ReturnType<typeof withdrawalView>> {
  const named: Sql =
    name.withdrawal_id === undefined
      ? sql`w.client_withdrawal_id = ${name.client_withdrawal_id ?? ""}`
      : sql`w.withdrawal_id = ${uuid(name.withdrawal_id)}`;
  const row = await first<WithdrawalRow>(
    db,
    sql`SELECT ${WITHDRAWAL_COLUMNS} FROM withdrawals w WHERE w.user_id = ${uuid(userId)} AND ${named}`,
  );
  if (row === undefined) throw problem("withdrawal_unknown", "You have no such withdrawal.");
  return withdrawalView(row);
}
