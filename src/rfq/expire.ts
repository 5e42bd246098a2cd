/**
 * Ends what is due. Each commit group begins with it, and mostly nothing is due. So a group inserts
 * one row into `expiry_commands`, whose trigger looks and does the rest only if something is.
 *
 * The trigger is generated from this file. `npm run migrations` writes the migration of a change,
 * and a test compares the two.
 */
import { columnsOf } from "../platform/command-rows.ts";
import { type Group, NOW } from "../platform/commit.ts";
import {
  all,
  type Expr,
  expr,
  literal,
  raw,
  readUuid,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";

/** Limit of due quotes, and of due requests, that one group ends before its own work. */
const MAX_EXPIRED_PER_GROUP = literal(200);

/** What a group ends first: of one book, and of these users in any book. */
export type ExpiryScope = { readonly asset: string; readonly userIds: readonly string[] };
/** The same as SQL. `userIds` is JSON. */
type Scope = { readonly asset: Expr; readonly userIds: Expr };

/** Quotes or requests by id. */
export type Records = { readonly table: "quotes" | "requests"; readonly ids: readonly string[] };

/**
 * The first step of each group. It ends what is due in this book, and the due quotes of the group's
 * users in any book so that their funds are available again. A request ends once it has no open
 * quote. What has been set aside because it could not be ended is left out (set-aside.ts).
 */
export function expireDue(group: Group, { asset, userIds }: ExpiryScope): Sql[] {
  return [
    sql`INSERT INTO expiry_commands (asset, user_ids, operation, at, expired_group)
      SELECT ${asset}, ${JSON.stringify(userIds)}, ${uuid(uuidv7())}, g.at, g.seq
      FROM commit_groups g WHERE g.group_id = ${uuid(group.id)}`,
  ];
}

/** A row of `expiry_commands`. */
const COMMAND_FIELDS = {
  asset: "text",
  user_ids: "text",
  operation: "blob",
  at: "integer",
  expired_group: "integer",
} as const;

/** What the trigger of `expiry_commands` does with a row that is about to be inserted. */
export function expiryTrigger(): Sql[] {
  const c = columnsOf(COMMAND_FIELDS, "NEW");
  const scope = { asset: c.asset, userIds: c.user_ids };
  const { at, operation } = c;
  return [
    sql`SELECT RAISE(IGNORE) WHERE NOT EXISTS (${dueInBook(scope, at)})
      AND NOT EXISTS (${dueOfUsers(scope, at)}) AND NOT EXISTS (${lateRequests(scope, at)})`,
    ...expire(
      { at, seq: c.expired_group, operation },
      { quotes: dueQuotes(scope, at), requests: dueRequests(scope, at) },
    ),
    // Nothing is stored here. What was done above stays.
    sql`SELECT RAISE(IGNORE)`,
  ];
}

/** Ends only these records, those that are due. */
export function expireOnly(group: Group, { table, ids }: Records): Sql[] {
  const named = sql`SELECT unhex(value, '-') FROM json_each(${JSON.stringify(ids)})`;
  const none = sql`SELECT NULL`;
  return expire(
    { at: group.at, seq: group.seq, operation: uuid(uuidv7()) },
    {
      quotes: table === "quotes" ? named : none,
      requests: table === "requests" ? named : none,
    },
  );
}

type Stamp = Pick<Group, "at" | "seq"> & { readonly operation: Expr };

function expire(stamp: Stamp, { quotes, requests }: { quotes: Sql; requests: Sql }): Sql[] {
  const { at, seq, operation } = stamp;
  return [
    sql`UPDATE quotes SET status = 'expired', ended_by = ${operation}, ended_group = ${seq}
      WHERE quote_id IN (${quotes}) AND status = 'open' AND expires_at <= ${at}`,
    sql`UPDATE requests SET status = 'expired', ended_by = ${operation}, ended_group = ${seq}
      WHERE request_id IN (${requests}) AND status = 'open' AND expires_at <= ${at}`,
  ];
}

function dueQuotes(scope: Scope, at: Expr): Sql {
  return sql`SELECT quote_id FROM (${dueInBook(scope, at)})
    UNION
    SELECT quote_id FROM (${dueOfUsers(scope, at)})`;
}

function dueInBook({ asset }: Scope, at: Expr): Sql {
  return sql`SELECT quote_id FROM quotes
    WHERE status = 'open' AND stuck_at IS NULL AND asset = ${asset} AND expires_at <= ${at}
    LIMIT ${MAX_EXPIRED_PER_GROUP}`;
}

function dueOfUsers({ userIds }: Scope, at: Expr): Sql {
  return sql`SELECT q.quote_id FROM json_each(${userIds}) u
    JOIN quotes q ON q.maker_id = unhex(u.value, '-') AND q.status = 'open'
      AND q.stuck_at IS NULL AND q.expires_at <= ${at}
    LIMIT ${MAX_EXPIRED_PER_GROUP}`;
}

/** Open requests past their time. Some may still have an open quote. */
function lateRequests({ asset }: Scope, at: Expr): Sql {
  return sql`SELECT r.request_id FROM requests r
    WHERE r.status = 'open' AND r.stuck_at IS NULL AND r.asset = ${asset} AND r.expires_at <= ${at}`;
}

function dueRequests(scope: Scope, at: Expr): Sql {
  return sql`${lateRequests(scope, at)}
      AND NOT EXISTS (SELECT 1 FROM quotes q WHERE q.request_id = r.request_id
        AND q.status = 'open' AND q.stuck_at IS NULL)
    LIMIT ${MAX_EXPIRED_PER_GROUP}`;
}

/**
 * What the expiry of the next group would end, quotes first, because they hold up their request.
 */
export async function readDue(db: D1Database, { asset, userIds }: ExpiryScope): Promise<Records[]> {
  const scope = { asset: expr`${asset}`, userIds: expr`${JSON.stringify(userIds)}` };
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
