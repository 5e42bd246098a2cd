/**
 * How statements end requests and quotes, and find what an operation of their batch ended. Triggers
 * end the promise of the quote (`quotes_unpromise`) and the standing accept of the request
 * (`requests_end_accept`).
 */
import type { Group } from "../platform/commit.ts";
import { type Expr, expr, raw, type Sql, sql, uuid } from "../platform/sql.ts";

/** What can be ended. A record that was set aside waits for the operator. */
export const ENDABLE: Expr = expr`status = 'open' AND stuck_at IS NULL`;

/** The status of a record that ends now. A record past its time always ends as expired. */
export function endedAs(status: "cancelled" | "rejected", { at }: Pick<Group, "at">): Sql {
  return sql`iif(expires_at <= ${at}, 'expired', ${raw(`'${status}'`)})`;
}

/**
 * Condition on requests or quotes: the operation has ended them in this group. Never ask by status,
 * because an operation whose guard did not apply must not find what another one ended.
 */
export function endedBy(group: Group, operationId: string): Expr {
  return expr`ended_group = ${group.seq} AND ended_by = ${uuid(operationId)}`;
}
