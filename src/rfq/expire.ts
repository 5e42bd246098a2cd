import { type Group, NOW } from "../platform/commit.ts";
import { all, type Expr, raw, readUuid, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { releaseQuotesEndedBy } from "./release.ts";

/** Limit of due quotes, and of due requests, that one group ends before its own work. */
const MAX_EXPIRED_PER_GROUP = 200;

/** What a group ends first: of one book, and of these users in any book. */
export type ExpiryScope = { readonly asset: string; readonly userIds: readonly string[] };

/** Quotes or requests by id. */
export type Records = { readonly table: "quotes" | "requests"; readonly ids: readonly string[] };

/**
 * The first step of each group. It ends what is due in this book, and the due quotes of the group's
 * users in any book so that their funds are available again. A request ends once it has no open
 * quote. What has been set aside because it could not be ended is left out (set-aside.ts).
 */
export function expireDue(group: Group, scope: ExpiryScope): Sql[] {
  return expire(group, {
    quotes: dueQuotes(scope, group.at),
    requests: dueRequests(scope, group.at),
  });
}

/** Ends only these records, those that are due. */
export function expireOnly(group: Group, { table, ids }: Records): Sql[] {
  const named = sql`SELECT unhex(value, '-') FROM json_each(${JSON.stringify(ids)})`;
  const none = sql`SELECT NULL`;
  return expire(group, {
    quotes: table === "quotes" ? named : none,
    requests: table === "requests" ? named : none,
  });
}

function expire(group: Group, { quotes, requests }: { quotes: Sql; requests: Sql }): Sql[] {
  const operation = uuidv7();
  return [
    sql`UPDATE quotes SET status = 'expired', ended_by = ${uuid(operation)},
      ended_group = ${group.seq}
      WHERE quote_id IN (${quotes}) AND status = 'open' AND expires_at <= ${group.at}`,
    sql`UPDATE requests SET status = 'expired', ended_by = ${uuid(operation)},
      ended_group = ${group.seq}
      WHERE request_id IN (${requests}) AND status = 'open' AND expires_at <= ${group.at}`,
    releaseQuotesEndedBy(group, operation),
  ];
}

function dueQuotes({ asset, userIds }: ExpiryScope, at: Expr): Sql {
  return sql`SELECT quote_id FROM (SELECT quote_id FROM quotes
      WHERE status = 'open' AND stuck_at IS NULL AND asset = ${asset} AND expires_at <= ${at}
      LIMIT ${MAX_EXPIRED_PER_GROUP})
    UNION
    SELECT quote_id FROM (SELECT q.quote_id FROM json_each(${JSON.stringify(userIds)}) u
      JOIN quotes q ON q.maker_id = unhex(u.value, '-') AND q.status = 'open'
        AND q.stuck_at IS NULL AND q.expires_at <= ${at}
      LIMIT ${MAX_EXPIRED_PER_GROUP})`;
}

function dueRequests({ asset }: ExpiryScope, at: Expr): Sql {
  return sql`SELECT r.request_id FROM requests r
    WHERE r.status = 'open' AND r.stuck_at IS NULL AND r.asset = ${asset} AND r.expires_at <= ${at}
      AND NOT EXISTS (SELECT 1 FROM quotes q WHERE q.request_id = r.request_id
        AND q.status = 'open' AND q.stuck_at IS NULL)
    LIMIT ${MAX_EXPIRED_PER_GROUP}`;
}

/** What the expiry of the next group would end, quotes first, because they hold up their request. */
export async function readDue(db: D1Database, scope: ExpiryScope): Promise<Records[]> {
  const [quotes, requests] = await Promise.all([
    readIds(db, dueQuotes(scope, NOW), "quote_id"),
    readIds(db, dueRequests(scope, NOW), "request_id"),
  ]);
  return [
    { table: "quotes", ids: quotes },
    { table: "requests", ids: requests },
  ];
}

export async function readIds(
  db: D1Database,
  ids: Sql,
  column: "quote_id" | "request_id",
): Promise<string[]> {
  const rows = await all<{ id: string }>(db, sql`SELECT hex(${raw(column)}) AS id FROM (${ids})`);
  return rows.map(({ id }) => readUuid(id));
}

/**
 * The next instant at which something in the book is due; null when nothing is open. Also the
 * instant of the group. Both in Unix milliseconds.
 */
export function nextDue(asset: string, at: Expr): Sql {
  return sql`SELECT min(due) AS due, ${at} AS at FROM (
    SELECT min(expires_at) AS due FROM quotes
    WHERE status = 'open' AND stuck_at IS NULL AND asset = ${asset}
    UNION ALL SELECT min(expires_at) FROM requests
    WHERE status = 'open' AND stuck_at IS NULL AND asset = ${asset})`;
}
