/** Reads one of the caller's withdrawals by either of its ids. */
import { and, eq } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { problem } from "../platform/problem.ts";
import { fields, read } from "../platform/read.ts";
import { WITHDRAWAL, type WithdrawalRow, withdrawalView } from "./payment-records.ts";
import { withdrawals } from "./tables.ts";

const w = alias(withdrawals, "w");

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
  const row = await findWithdrawal(db, userId, lookup);
  if (row === undefined) throw problem("withdrawal_unknown", "You have no such withdrawal.");
  return withdrawalView(row);
}

export async function findWithdrawal(
  db: D1Database,
  userId: string,
  lookup: WithdrawalLookup,
): Promise<WithdrawalRow | undefined> {
  const matches =
    lookup.withdrawal_id === undefined
      ? eq(w.clientWithdrawalId, lookup.client_withdrawal_id ?? "")
      : eq(w.withdrawalId, lookup.withdrawal_id);
  const [row] = await read(db, ({ select }) =>
    select(fields<WithdrawalRow>(WITHDRAWAL))
      .from(w)
      .where(and(eq(w.userId, userId), matches)),
  );
  return row;
}
