/** What custody contributes to the snapshot of an account stream. */
import { UNFINISHED } from "../assets/withdrawal-status.ts";
import { balancesQuery, type BalanceTexts, readBalanceTexts } from "../ledger/balance.ts";
import { select, sql, uuid } from "../platform/sql.ts";
import type { SnapshotPart } from "../streams/replay.ts";
import { balanceView } from "./list-balances.ts";
import { WITHDRAWAL, type WithdrawalRow, withdrawalView } from "./payment-records.ts";

/** An account can receive any number of assets. More than these are left to GET get-balances. */
const MAX_BALANCES = 10_000;

/** The user's balances, USDC first. */
export function ownBalances(userId: string): SnapshotPart {
  return {
    name: "balances",
    statement: balancesQuery(userId, { after: "", limit: MAX_BALANCES }),
    view: (row) => {
      // Safe cast: the statement selects these columns.
      const { asset, ...texts } = row as BalanceTexts & { asset: string };
      return balanceView(asset, readBalanceTexts(texts));
    },
  };
}

/** The user's withdrawals that have not ended, oldest first. */
export function ownUnfinishedWithdrawals(userId: string): SnapshotPart {
  return {
    name: "withdrawals",
    statement: sql`SELECT ${select(WITHDRAWAL)} FROM withdrawals w
      WHERE w.user_id = ${uuid(userId)} AND w.status ${UNFINISHED}
      ORDER BY w.created_at, w.withdrawal_id`,
    // Safe cast: the statement selects the columns of the row type.
    view: (row) => withdrawalView(row as WithdrawalRow),
  };
}
