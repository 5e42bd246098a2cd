/**
 * Writes the events of a commit group from the rows that the group stamped. Every path that ends or
 * opens something announces it here: commands, alarms, cron, freezes and market closes. Within a
 * stream, causes come before effects.
 */
import type { Group } from "../platform/commit.ts";
import { type Expr, raw, type Sql, sql, jsonObject, atom, expr } from "../platform/sql.ts";
import { accountStreamOf, announce } from "../streams/event-log.ts";
import { protectionsTripped } from "./protection-record.ts";
import type { RecordKind } from "./operation.ts";
import {
  matchColumns,
  newQuoteColumns,
  newRequestColumns,
  PUBLIC,
  REPLACED_BY,
  TRADE,
} from "./records.ts";

/** Of a group that only ends records. */
export const NOTHING_MADE: ReadonlySet<RecordKind> = new Set();

/** `made` are the kinds of records that the group can have made. Every group can end some. */
export function announceRfq(group: Group, made: ReadonlySet<RecordKind>): Sql[] {
  return announce(
    group,
    ...(made.has("request") ? [requestsOpened(group)] : []),
    ...(made.has("quote") ? [quotesOpened(group)] : []),
    quotesClosed(group),
    requestsClosed(group),
    ...(made.has("match") ? [matchesCreated(group)] : []),
  );
}

const bookOf = (table: "r" | "m"): Expr => expr`'book:' || ${raw(`${table}.asset`)}`;
const venueOf = (table: "r" | "m"): Expr => {
  const asset = raw(`${table}.asset`);
  return expr`'venue:' || substr(${asset}, 1, instr(${asset}, ':') - 1)`;
};

function requestsOpened(group: Group): Sql {
  const rows = sql`FROM requests r WHERE r.opened_group = ${group.seq}`;
  const toPublic = jsonObject(newRequestColumns(PUBLIC));
  const toOwner = jsonObject(newRequestColumns({ kind: "user", userId: atom("r.requester_id") }));
  return sql`SELECT ${bookOf("r")} AS stream, 'request.opened' AS type, ${toPublic} AS body,
    r.request_id AS ord ${rows}
    UNION ALL SELECT ${venueOf("r")}, 'request.opened', ${toPublic}, r.request_id ${rows}
    UNION ALL SELECT ${accountStreamOf("r.requester_id")}, 'request.opened', ${toOwner},
      r.request_id ${rows}`;
}

function requestsClosed(group: Group): Sql {
  const rows = sql`FROM requests r WHERE r.ended_group = ${group.seq}`;
  const body = raw("json_object('request_id', hex(r.request_id), 'reason', r.status)");
  return sql`SELECT ${bookOf("r")} AS stream, 'request.closed' AS type, ${body} AS body,
    r.request_id AS ord ${rows}
    UNION ALL SELECT ${venueOf("r")}, 'request.closed', ${body}, r.request_id ${rows}
    UNION ALL SELECT ${accountStreamOf("r.requester_id")}, 'request.closed', ${body},
      r.request_id ${rows}`;
}

function quotesOpened(group: Group): Sql {
  const rows = sql`FROM quotes q JOIN requests r ON r.request_id = q.request_id
    WHERE q.opened_group = ${group.seq}`;
  return sql`SELECT ${accountStreamOf("q.maker_id")} AS stream, 'quote.opened' AS type,
    ${jsonObject(newQuoteColumns("maker"))} AS body,
      q.quote_id AS ord ${rows}
    UNION ALL SELECT ${accountStreamOf("r.requester_id")}, 'quote.received',
      ${jsonObject(newQuoteColumns("requester"))}, q.quote_id ${rows}`;
}

/** What the quote lost to, if another one of the same side won. The tape shows it to everybody. */
const WINNING_PRICE = expr`SELECT m.price FROM matches m
  WHERE q.status = 'rejected' AND m.request_id = q.request_id AND m.side = q.side`;

function quotesClosed(group: Group): Sql {
  const rows = sql`FROM quotes q JOIN requests r ON r.request_id = q.request_id
    WHERE q.ended_group = ${group.seq}`;
  const ids = { quote_id: atom("hex(q.quote_id)"), request_id: atom("hex(q.request_id)") };
  const toRequester = jsonObject({ ...ids, reason: atom("q.status") });
  const toMaker = jsonObject({
    ...ids,
    reason: atom("coalesce(q.cancel_reason, q.status)"),
    replaced_by: REPLACED_BY,
    label: atom("q.label"),
    winning_price: WINNING_PRICE,
  });
  return sql`SELECT ${accountStreamOf("q.maker_id")} AS stream, 'quote.closed' AS type,
    ${toMaker} AS body, q.quote_id AS ord ${rows}
    UNION ALL SELECT ${accountStreamOf("r.requester_id")}, 'quote.closed', ${toRequester},
      q.quote_id ${rows}`;
}

function matchesCreated(group: Group): Sql {
  const rows = sql`FROM matches m WHERE m.matched_group = ${group.seq}`;
  const trade = jsonObject(TRADE);
  return sql`SELECT ${accountStreamOf("m.requester_id")} AS stream, 'match.created' AS type,
    ${jsonObject(matchColumns(atom("m.requester_id")))} AS body,
      m.match_id AS ord ${rows}
    UNION ALL SELECT ${accountStreamOf("m.maker_id")}, 'match.created',
      ${jsonObject(matchColumns(atom("m.maker_id")))}, m.match_id ${rows}
    UNION ALL SELECT ${bookOf("m")}, 'trade.printed', ${trade}, m.match_id ${rows}
    UNION ALL SELECT ${venueOf("m")}, 'trade.printed', ${trade}, m.match_id ${rows}
    UNION ALL ${protectionsTripped(group)}`;
}
