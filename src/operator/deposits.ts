import { DEPOSIT, type DepositRow, depositView } from "../custody/payment-records.ts";
import { LISTED_DEPOSIT_STATUSES } from "../custody/column-values.ts";
import { all, and, type Expr, expr, select, type Sql, sql } from "../platform/sql.ts";
import { closeAlerts } from "./audit-commands.ts";
import { type OperatorContext, limitOption, oneOfOption, textOption } from "./context.ts";
import { ofUserSince, type Owned, ownedBy } from "./listed.ts";
import { OperatorRejection } from "./operator-rejection.ts";

/** Lists deposits of all users, newest first: by id, and small ones by when they were recorded. */
export async function list(context: OperatorContext): Promise<unknown> {
  const status = oneOfOption(context, "status", LISTED_DEPOSIT_STATUSES);
  const limit = limitOption(context);
  const listed = await ofUserSince(context, { id: "d.deposit_id", users: ["d.user_id"] });
  const part = (table: Sql, conditions: readonly Expr[], order: Sql) =>
    all<DepositRow & Owned>(
      context.env.DB,
      sql`SELECT ${select({ ...DEPOSIT, ...ownedBy("d.user_id") })} FROM ${table}
        WHERE ${and([...listed, ...conditions])} ORDER BY ${order} DESC LIMIT ${limit}`,
    );
  const ofStatus = status === undefined ? [] : [expr`d.status = ${status}`];
  const rows = [
    ...(status === "below_minimum" ? [] : await part(sql`deposits d`, ofStatus, sql`d.deposit_id`)),
    ...(status === undefined || status === "below_minimum"
      ? await part(sql`small_deposit_records d`, [], sql`d.small_id`)
      : []),
  ];
  const newest = rows.toSorted((one, other) => (one.deposit_id < other.deposit_id ? 1 : -1));
  // What a table of 100 columns shows comes first.
  return newest.slice(0, limit).map((row) => {
    const { address, ...view } = depositView(row);
    const { deposit_id, status: its } = view;
    const first = { deposit_id, email: row.email, status: its };
    return { ...first, ...view, user_id: row.owner, address };
  });
}

/** Closes the alerts about quarantined deposits. The deposits stay quarantined. */
export async function reviewed(context: OperatorContext): Promise<unknown> {
  const chains = await closeAlerts(
    context,
    { kind: "deposit_quarantined" },
    { kind: "deposits_reviewed", reason: textOption(context, "reason") },
  );
  if (chains.length === 0)
    throw new OperatorRejection("no_open_alert", "No alert about quarantined deposits is open.");
  return { chains };
}
