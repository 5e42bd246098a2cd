/** Releases the reserve of a quote. A reserve ends only by a release or by a trade. */
import { type Posting, transfer } from "../ledger/post.ts";
import type { Group } from "../platform/commit.ts";
import { type Expr, expr, raw, type Sql, sql, uuid } from "../platform/sql.ts";

/** The status of a record that ends now. A record past its time always ends as expired. */
export function endedAs(status: "cancelled" | "rejected", { at }: Pick<Group, "at">): Sql {
  return sql`iif(expires_at <= ${at}, 'expired', ${raw(`'${status}'`)})`;
}

/** Condition on requests or quotes: the operation has ended them in this group. */
export function endedBy(group: Group, operationId: string, alias?: "q"): Expr {
  const of = raw(alias === undefined ? "" : `${alias}.`);
  return expr`${of}ended_group = ${group.seq} AND ${of}ended_by = ${uuid(operationId)}`;
}

/**
 * Releases the quotes that these operations ended. They are selected by the operation's stamp,
 * never by status, because an operation whose guard did not apply must not find quotes that another
 * one ended.
 */
export function releaseQuotesEndedBy(group: Group, operationIds: string | readonly string[]): Sql {
  const ended =
    typeof operationIds === "string"
      ? sql`= ${uuid(operationIds)}`
      : sql`IN (SELECT unhex(value, '-') FROM json_each(${JSON.stringify(operationIds)}))`;
  return releaseQuotes(group, ended);
}

/** The same, where `ended` compares an operation's id. A trigger can contain it. */
export function releaseQuotes(group: Pick<Group, "at" | "seq">, ended: Sql): Sql {
  return transfer(group, releaseOf(group, ended));
}

/** The release as a posting among others. */
export function releaseOf(group: Pick<Group, "at" | "seq">, ended: Sql): Posting {
  return {
    toExists: true,
    reason: "release",
    step: "end",
    from: "pending",
    to: "available",
    source: sql`SELECT q.maker_id AS from_owner, q.maker_id AS to_owner, q.reserve_asset AS asset,
      q.reserve AS amount,
      q.quote_id AS ref, 0 AS line FROM quotes q
      WHERE q.ended_group = ${group.seq} AND q.ended_by ${ended}
        AND q.status IN ('cancelled', 'expired', 'rejected')`,
  };
}
