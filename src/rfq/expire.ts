import type { Group } from "../platform/commit.ts";
import { type Expr, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { releaseQuotesEndedBy } from "./release.ts";

/** Limit of due quotes, and of due requests, that one group ends before its own work. */
const MAX_EXPIRED_PER_GROUP = 200;

/**
 * The first step of each group. It ends what is due in this book, and the due quotes of the group's
 * users in any book so that their funds are available again. A request ends once it has no open
 * quote.
 */
export function expireDue(
  group: Group,
  scope: { readonly asset: string; readonly userIds: readonly string[] },
): Sql[] {
  const operation = uuidv7();
  return [
    sql`UPDATE quotes SET status = 'expired', ended_by = ${uuid(operation)},
      ended_group = ${group.seq} WHERE quote_id IN (
      SELECT quote_id FROM (SELECT quote_id FROM quotes WHERE status = 'open'
        AND asset = ${scope.asset} AND expires_at <= ${group.at}
        LIMIT ${MAX_EXPIRED_PER_GROUP})
      UNION
      SELECT quote_id FROM (SELECT q.quote_id FROM json_each(${JSON.stringify(scope.userIds)}) u
        JOIN quotes q ON q.maker_id = unhex(u.value, '-') AND q.status = 'open'
          AND q.expires_at <= ${group.at}
        LIMIT ${MAX_EXPIRED_PER_GROUP}))`,
    sql`UPDATE requests SET status = 'expired', ended_by = ${uuid(operation)},
      ended_group = ${group.seq} WHERE request_id IN (
      SELECT r.request_id FROM requests r WHERE r.status = 'open' AND r.asset = ${scope.asset}
        AND r.expires_at <= ${group.at}
        AND NOT EXISTS (SELECT 1 FROM quotes q WHERE q.request_id = r.request_id
          AND q.status = 'open')
      LIMIT ${MAX_EXPIRED_PER_GROUP})`,
    releaseQuotesEndedBy(group, operation),
  ];
}

/**
 * The next instant at which something in the book is due; null when nothing is open. Also the
 * instant of the group. Both in Unix milliseconds.
 */
export function nextDue(asset: string, at: Expr): Sql {
  return sql`SELECT min(due) AS due, ${at} AS at FROM (
    SELECT min(expires_at) AS due FROM quotes WHERE status = 'open' AND asset = ${asset}
    UNION ALL SELECT min(expires_at) FROM requests WHERE status = 'open' AND asset = ${asset})`;
}
