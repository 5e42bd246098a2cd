import {
  DEPOSIT_STATUSES,
  type DepositStatus,
  DEPOSIT_COLUMNS,
  type DepositRow,
  depositView,
} from "../custody/records.ts";
import { all, readUuid, sql } from "../platform/sql.ts";
import { closeAlerts } from "./audit.ts";
import { type OperatorContext, limitOption, oneOfOption, option } from "./context.ts";
import { OperatorRejection } from "./operator-rejection.ts";

/**
 * Lists deposits of all users, newest first. Ids contain their time, so the primary key sorts them.
 */
export async function list(context: OperatorContext): Promise<unknown> {
  const status: DepositStatus | undefined = oneOfOption(context, "status", DEPOSIT_STATUSES);
  const rows = await all<DepositRow & { user_id: string }>(
    context.env.DB,
    sql`SELECT ${DEPOSIT_COLUMNS}, hex(d.user_id) AS user_id FROM deposits d
      WHERE ${status ?? null} IS NULL OR d.status = ${status ?? null}
      ORDER BY d.deposit_id DESC LIMIT ${limitOption(context)}`,
  );
  return rows.map((row) => {
    const { deposit_id, chain, venue_id, asset_id, amount, transaction_hash, ...rest } =
      depositView(row);
    return {
      deposit_id,
      user_id: readUuid(row.user_id),
      chain,
      venue_id,
      asset_id,
      amount,
      transaction_hash,
      ...rest,
    };
  });
}

/** Closes the alerts about quarantined deposits. The deposits stay quarantined. */
export async function reviewed(context: OperatorContext): Promise<unknown> {
  const chains = await closeAlerts(context, "deposit_quarantined", {
    kind: "deposits_reviewed",
    reason: option(context, "reason"),
  });
  if (chains.length === 0)
    throw new OperatorRejection("no_open_alert", "No alert about quarantined deposits is open.");
  return { chains };
}
