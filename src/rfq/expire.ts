/**
 * Ends what is due. Each commit group begins with it, and mostly nothing is due. So a group inserts
 * one row into `expiry_commands`, whose trigger (`expiry_commands_expire`) looks and does the rest
 * only if something is.
 *
 * The trigger is generated from this file. `npm run migrations` writes the migration of a change,
 * and a test compares the two.
 */
import { columnsOf } from "../platform/command-rows.ts";
import { type Group, NOW } from "../platform/commit.ts";
import {
  all,
  atom,
  type Expr,
  expr,
  literal,
  raw,
  readUuid,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import { logged } from "../platform/log.ts";
import { bookObject } from "../streams/notify.ts";
import type { OpenQuote } from "./due-quotes.ts";
import { uuidv7 } from "../platform/uuid.ts";

/** Limit of due quotes, and of due requests, that one group ends before its own work. */
const MAX_EXPIRED_PER_GROUP = literal(200);

/** What a group ends first. Without `quoteIds` it looks at all open quotes of the book. */
export type ExpiryScope = {
  readonly asset: string;
  readonly userIds: readonly string[];
  readonly quoteIds: readonly string[] | null;
};
/** The same as SQL. The lists are JSON. */
type Scope = { readonly asset: Expr; readonly userIds: Expr; readonly quoteIds: Expr };

/**
 * Ends what is due in this book, and the due quotes of the group's users in any book, to free their
 * funds. A request ends once it has no open quote. What was set aside is left out.
 */
export function expireDue(group: Group, { asset, userIds, quoteIds }: ExpiryScope): Sql[] {
  const named = quoteIds === null ? null : JSON.stringify(quoteIds);
  return [
    sql`INSERT INTO expiry_commands (asset, user_ids, quote_ids, operation, at, expired_group)
      SELECT ${asset}, ${JSON.stringify(userIds)}, ${named}, ${uuid(uuidv7())}, g.at, g.seq
      FROM commit_groups g WHERE g.group_id = ${uuid(group.id)}`,
  ];
}

/** A row of `expiry_commands`. */
const COMMAND_FIELDS = {
  asset: "text",
  user_ids: "text",
  quote_ids: "text",
  operation: "blob",
  at: "integer",
  expired_group: "integer",
} as const;

/** What the trigger of `expiry_commands` does with a row that is about to be inserted. */
export function expiryTrigger(): Sql[] {
  const c = columnsOf(COMMAND_FIELDS, "NEW");
  const scope = { asset: c.asset, userIds: c.user_ids, quoteIds: c.quote_ids };
  const { at, operation, expired_group: seq } = c;
  return [
    sql`SELECT RAISE(IGNORE) WHERE NOT EXISTS (${dueInBook(scope, at)})
      AND NOT EXISTS (${dueOfUsers(scope, at)}) AND NOT EXISTS (${lateRequests(scope, at)})`,
    sql`UPDATE quotes SET status = 'expired', ended_by = ${operation}, ended_group = ${seq}
      WHERE quote_id IN (${dueQuotes(scope, at)}) AND status = 'open' AND expires_at <= ${at}`,
    sql`UPDATE requests SET status = 'expired', ended_by = ${operation}, ended_group = ${seq}
      WHERE request_id IN (${dueRequests(scope, at)}) AND status = 'open' AND expires_at <= ${at}`,
    // Nothing is stored here. What was done above stays.
    sql`SELECT RAISE(IGNORE)`,
  ];
}

function dueQuotes(scope: Scope, at: Expr): Sql {
  return sql`SELECT quote_id FROM (${dueInBook(scope, at)})
    UNION
    SELECT quote_id FROM (${dueOfUsers(scope, at)})`;
}

function dueInBook({ asset, quoteIds }: Scope, at: Expr): Sql {
  return sql`SELECT q.quote_id FROM json_each(${quoteIds}) n
      JOIN quotes q ON q.quote_id = unhex(n.value, '-') AND q.status = 'open'
        AND q.stuck_at IS NULL AND q.expires_at <= ${at}
    UNION ALL SELECT q.quote_id FROM ${openQuotes(asset)}
      AND q.expires_at <= ${at} AND ${quoteIds} IS NULL
    LIMIT ${MAX_EXPIRED_PER_GROUP}`;
}

/** Quotes \`q\` of the open requests of a book. */
function openQuotes(asset: Expr): Sql {
  return sql`requests r CROSS JOIN quotes q INDEXED BY quotes_request_status
      ON q.request_id = r.request_id AND q.status = 'open' AND q.stuck_at IS NULL
    WHERE r.asset = ${asset} AND r.status = 'open'`;
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

/** What the expiry of the next group would end: quotes, and requests that have no open quote. */
export function readDue(
  db: D1Database,
  { asset, userIds }: Omit<ExpiryScope, "quoteIds">,
  what: "quotes" | "requests",
): Promise<string[]> {
  const scope = {
    asset: expr`${asset}`,
    userIds: expr`${JSON.stringify(userIds)}`,
    quoteIds: atom("NULL"),
  };
  return what === "quotes"
    ? readIds(db, dueQuotes(scope, NOW), "quote_id")
    : readIds(db, dueRequests(scope, NOW), "request_id");
}

export async function readIds(
  db: D1Database,
  ids: Sql,
  column: "quote_id" | "request_id",
): Promise<string[]> {
  const rows = await all<{ id: string }>(db, sql`SELECT hex(${raw(column)}) AS id FROM (${ids})`);
  return rows.map(({ id }) => readUuid(id));
}

export async function readOpenQuotes(db: D1Database, asset: string): Promise<OpenQuote[]> {
  const rows = await all<{ id: string; at: number }>(
    db,
    sql`SELECT hex(q.quote_id) AS id, q.expires_at AS at FROM ${openQuotes(expr`${asset}`)}`,
  );
  return rows.map(({ id, at }) => [id, at]);
}

/** What the next instant is about: requests of the book, or its open quotes too. */
export type Due = "requests" | "all";

/** When something in the book is due next, or null, and the group's instant. Unix milliseconds. */
export function nextDue(asset: string, at: Expr, what: Due): Sql {
  const requests = sql`SELECT min(expires_at) AS due FROM requests
    WHERE status = 'open' AND stuck_at IS NULL AND asset = ${asset}`;
  if (what === "requests") return sql`SELECT due, ${at} AS at FROM (${requests})`;
  return sql`SELECT min(due) AS due, ${at} AS at FROM (
    ${requests} UNION ALL SELECT min(q.expires_at) FROM ${openQuotes(expr`${asset}`)})`;
}

/** Cron leaves an alarm this much time before it acts instead. */
const ALARM_GRACE_MS = 5_000;
const MAX_BOOKS = 200;

/** Cron: wakes the books in which something is overdue, because their alarm missed it. */
export async function expireMissed(env: Env): Promise<void> {
  const books = await all<{ asset: string }>(
    env.DB,
    sql`SELECT r.asset FROM requests r CROSS JOIN quotes q INDEXED BY quotes_request_status
        ON q.request_id = r.request_id AND q.status = 'open' AND q.stuck_at IS NULL
        WHERE r.status = 'open' AND q.expires_at <= ${NOW} - ${ALARM_GRACE_MS}
      UNION SELECT asset FROM requests WHERE status = 'open' AND stuck_at IS NULL
        AND expires_at <= ${NOW} - ${ALARM_GRACE_MS} LIMIT ${MAX_BOOKS}`,
  );
  await Promise.all(
    books.map(({ asset }) =>
      bookObject(env, asset)
        .expireDue()
        .catch(logged("error", "rfq.expire_failed", { asset })),
    ),
  );
}
