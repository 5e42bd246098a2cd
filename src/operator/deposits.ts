import * as z from "zod";
import { DEPOSIT, type DepositRow, depositView } from "../custody/payment-records.ts";
import { LISTED_DEPOSIT_STATUSES } from "../custody/column-values.ts";
import {
  all,
  and,
  type Expr,
  expr,
  readUuid,
  select,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import { closeAlerts } from "./audit-commands.ts";
import {
  type OperatorContext,
  limitOption,
  oneOfOption,
  optionalField,
  textOption,
} from "./context.ts";
import { type Listed, ofUserSince, type Owned, ownedBy, listedPage } from "./listed.ts";
import { OperatorRejection } from "./operator-rejection.ts";

/** The last deposit and the last small one that were shown. */
const position = z
  .string()
  .regex(/^([0-9a-f-]{36})?\.\d{0,15}$/, "must be the cursor of a page")
  .transform((text) => text.split("."));

/**
 * Lists deposits of all users, newest first: by id, and small ones by when they were recorded. What
 * one commit recorded is not in the order of the ids, so the cursor has a position in both.
 */
export async function list(context: OperatorContext): Promise<Listed> {
  const status = oneOfOption(context, "status", LISTED_DEPOSIT_STATUSES);
  const limit = limitOption(context);
  const { cursor: _, ...options } = context.options;
  let [before = "", smallBefore = ""] = optionalField(context, "cursor", position) ?? [];
  const of = { id: "d.deposit_id", users: ["d.user_id"] };
  const listed = await ofUserSince({ ...context, options }, of);
  const part = (table: Sql, smallId: Sql, conditions: readonly Expr[], order: Sql) =>
    all<DepositRow & Owned & { readonly small_id: number }>(
      context.env.DB,
      sql`SELECT ${select({ ...DEPOSIT, ...ownedBy("d.user_id") })}, ${smallId} AS small_id
        FROM ${table} WHERE ${and([...listed, ...conditions])}
        ORDER BY ${order} DESC LIMIT ${limit}`,
    );
  const ofStatus = status === undefined ? [] : [expr`d.status = ${status}`];
  const older = before === "" ? [] : [expr`d.deposit_id < ${uuid(before)}`];
  const olderSmall = smallBefore === "" ? [] : [expr`d.small_id < ${Number(smallBefore)}`];
  const large =
    status === "below_minimum"
      ? []
      : await part(sql`deposits d`, sql`0`, [...ofStatus, ...older], sql`d.deposit_id`);
  const small =
    status === undefined || status === "below_minimum"
      ? await part(sql`small_deposit_records d`, sql`d.small_id`, olderSmall, sql`d.small_id`)
      : [];
  const rows: typeof large = [];
  const newest = () =>
    (large[0]?.deposit_id ?? "") > (small[0]?.deposit_id ?? "") ? large : small;
  for (let row = newest().shift(); row !== undefined; row = newest().shift()) {
    if (row.small_id === 0) before = readUuid(row.deposit_id);
    else smallBefore = String(row.small_id);
    rows.push(row);
    if (rows.length === limit) break;
  }
  // What a table of 100 columns shows comes first.
  return listedPage(
    context,
    rows,
    () => `${before}.${smallBefore}`,
    (row) => {
      const { address, ...view } = depositView(row);
      const { deposit_id, status: its } = view;
      const first = { deposit_id, email: row.email, status: its };
      return { ...first, ...view, user_id: row.owner, address };
    },
  );
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
