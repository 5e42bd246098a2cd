import { desc, eq } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { DEPOSIT, type DepositRow, depositView } from "../custody/records.ts";
import { DEPOSIT_STATUSES, deposits } from "../custody/tables.ts";
import { fields, read } from "../platform/read.ts";
import { closeAlerts } from "./audit.ts";
import { type OperatorContext, limitOption, oneOfOption, option } from "./context.ts";
import { OperatorRejection } from "./operator-rejection.ts";

const d = alias(deposits, "d");

/**
 * Lists deposits of all users, newest first. Ids contain their time, so the primary key sorts them.
 */
export async function list(context: OperatorContext): Promise<unknown> {
  const status = oneOfOption(context, "status", DEPOSIT_STATUSES);
  const rows = await read(context.env.DB, ({ select }) =>
    select({ ...fields<DepositRow>(DEPOSIT), user_id: d.userId })
      .from(d)
      .where(status && eq(d.status, status))
      .orderBy(desc(d.depositId))
      .limit(limitOption(context)),
  );
  return rows.map((row) => {
    const { deposit_id, chain, venue_id, asset_id, amount, transaction_hash, ...rest } =
      depositView(row);
    return {
      deposit_id,
      user_id: row.user_id,
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
