import { DEPOSIT, type DepositRow, depositView } from "../custody/payment-records.ts";
import { LISTED_DEPOSIT_STATUSES } from "../custody/tables.ts";
import { all, expr, readUuid, select, type Sql, sql, TRUE } from "../platform/sql.ts";
import { closeAlerts } from "./audit-commands.ts";
import { type OperatorContext, limitOption, oneOfOption, option } from "./context.ts";
import { OperatorRejection } from "./operator-rejection.ts";

type Row = DepositRow & { readonly owner: string };

/**
 * Lists deposits of all users, newest first. Ids contain their time, so the primary key sorts them.
 * `small_deposits` is sorted by when its rows were recorded, which is nearly the same.
 */
export async function list(context: OperatorContext): Promise<unknown> {
  const status = oneOfOption(context, "status", LISTED_DEPOSIT_STATUSES);
  const limit = limitOption(context);
  const part = (table: Sql) =>
    all<Row>(
      context.env.DB,
      sql`SELECT ${select(DEPOSIT)}, hex(d.user_id) AS owner FROM ${table} LIMIT ${limit}`,
    );
  const ofStatus = status === undefined ? TRUE : expr`d.status = ${status}`;
  const rows = [
    ...(status === "below_minimum"
      ? []
      : await part(sql`deposits d WHERE ${ofStatus} ORDER BY d.deposit_id DESC`)),
    ...(status === undefined || status === "below_minimum"
      ? await part(sql`small_deposit_records d ORDER BY d.small_id DESC`)
      : []),
  ];
  const newest = rows.toSorted((one, other) => (one.deposit_id < other.deposit_id ? 1 : -1));
  return newest.slice(0, limit).map((row) => {
    const { deposit_id, chain, venue_id, asset_id, amount, transaction_hash, ...rest } =
      depositView(row);
    return {
      deposit_id,
      user_id: readUuid(row.owner),
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
  const chains = await closeAlerts(
    context,
    { kind: "deposit_quarantined" },
    { kind: "deposits_reviewed", reason: option(context, "reason") },
  );
  if (chains.length === 0)
    throw new OperatorRejection("no_open_alert", "No alert about quarantined deposits is open.");
  return { chains };
}
