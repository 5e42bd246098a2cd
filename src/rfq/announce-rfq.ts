/**
 * Writes a group's events from the rows that it stamped. Every path that ends or opens something
 * announces it here. Within a stream, causes come before effects.
 */
import type { Group } from "../platform/commit.ts";
import { storedAsset, storedEvent } from "../platform/event-forms.ts";
import { atom, type Expr, expr, raw, type Sql, sql } from "../platform/sql.ts";
import { announce } from "../platform/announce.ts";
import { acceptsRefused } from "./standing-accept.ts";
import { protectionsTripped } from "./protection-record.ts";
import { type Made, placedBy } from "./book-operation.ts";
import {
  MATCH_CREATED,
  OWN_QUOTE_CLOSED,
  QUOTE_CLOSED,
  QUOTE_OPENED,
  REQUEST_CLOSED,
  REQUEST_OPENED,
  TRADE_PRINTED,
  VENUE_REQUEST_CLOSED,
} from "./rfq-event-forms.ts";
import {
  type Audience,
  matchColumns,
  newQuoteColumns,
  newRequestColumns,
  PUBLIC_AUDIENCE,
  REPLACED_BY,
  TAPE_TRADE,
} from "./rfq-records.ts";

/** `made` are the records that the group can have made. Every group can end some. */
export function announceRfq(group: Group, made: Made = {}): Sql[] {
  return announce(
    group,
    ...(made.request !== undefined ? [requestsOpened(group)] : []),
    ...(made.quote !== undefined ? [quotesOpened(group, made)] : []),
    quotesClosed(group),
    requestsClosed(group),
    ...(made.match !== undefined || made.standing !== undefined ? [matchesCreated(group)] : []),
    ...(made.standing !== undefined ? [acceptsRefused(group, made)] : []),
  );
}

const bookStreamOf = (table: "r" | "m"): Expr => expr`'book:' || ${raw(`${table}.asset`)}`;
const venueStreamOf = (table: "r" | "m"): Expr =>
  expr`'venue:' || ${storedAsset(`${table}.asset`).venue}`;

function requestsOpened(group: Group): Sql {
  const rows = sql`FROM requests r WHERE r.opened_group = ${group.seq}`;
  const stored = { ...storedAsset("r.asset"), life_ms: expr`r.expires_at - r.opened_at` };
  const eventTo = (audience: Audience) =>
    storedEvent(REQUEST_OPENED, "request.opened", { ...newRequestColumns(audience), ...stored });
  const toPublic = eventTo(PUBLIC_AUDIENCE);
  const toOwner = eventTo({ kind: "user", userId: atom("r.requester_id") });
  return sql`SELECT ${bookStreamOf("r")} AS stream, ${toPublic}, r.request_id AS ord ${rows}
    UNION ALL SELECT ${venueStreamOf("r")}, ${toPublic}, r.request_id ${rows}
    UNION ALL SELECT r.requester_id, ${toOwner}, r.request_id ${rows}`;
}

function requestsClosed(group: Group): Sql {
  const rows = sql`FROM requests r WHERE r.ended_group = ${group.seq}`;
  const columns = { request_id: atom("hex(r.request_id)"), reason: atom("r.status") };
  const event = storedEvent(REQUEST_CLOSED, "request.closed", columns);
  const toVenue = storedEvent(VENUE_REQUEST_CLOSED, "request.closed", {
    ...columns,
    asset_id: storedAsset("r.asset").asset_id,
  });
  return sql`SELECT ${bookStreamOf("r")} AS stream, ${event}, r.request_id AS ord ${rows}
    UNION ALL SELECT ${venueStreamOf("r")}, ${toVenue}, r.request_id ${rows}
    UNION ALL SELECT r.requester_id, ${event}, r.request_id ${rows}`;
}

function quotesOpened(group: Group, made: Made): Sql {
  const rows = sql`FROM quotes q JOIN requests r ON r.request_id = q.request_id
    WHERE ${placedBy(group, made)}`;
  const stored = { ...storedAsset("q.asset"), life_ms: expr`q.expires_at - q.opened_at` };
  const event = (type: "quote.opened" | "quote.received", reads: "maker" | "requester") =>
    storedEvent(QUOTE_OPENED, type, { ...newQuoteColumns(reads), ...stored });
  return sql`SELECT q.maker_id AS stream, ${event("quote.opened", "maker")},
      q.quote_id AS ord ${rows}
    UNION ALL SELECT r.requester_id, ${event("quote.received", "requester")}, q.quote_id ${rows}`;
}

/** What the quote lost to, if another one of the same side won. The tape shows it to everybody. */
const WINNING_PRICE = expr`SELECT m.price FROM matches m
  WHERE q.status = 'rejected' AND m.request_id = q.request_id AND m.side = q.side`;

function quotesClosed(group: Group): Sql {
  const rows = sql`FROM quotes q JOIN requests r ON r.request_id = q.request_id
    WHERE q.ended_group = ${group.seq}`;
  const ids = { quote_id: atom("hex(q.quote_id)"), request_id: atom("hex(q.request_id)") };
  const toRequester = storedEvent(QUOTE_CLOSED, "quote.closed", {
    ...ids,
    reason: atom("q.status"),
  });
  const toMaker = storedEvent(OWN_QUOTE_CLOSED, "quote.closed", {
    ...ids,
    reason: atom("q.close_reason"),
    replaced_by: REPLACED_BY,
    label: atom("q.label"),
    winning_price: WINNING_PRICE,
  });
  return sql`SELECT q.maker_id AS stream, ${toMaker}, q.quote_id AS ord ${rows}
    UNION ALL SELECT r.requester_id, ${toRequester}, q.quote_id ${rows}`;
}

function matchesCreated(group: Group): Sql {
  const rows = sql`FROM matches m WHERE m.matched_group = ${group.seq}`;
  const stored = storedAsset("m.asset");
  const matchOf = (userId: Expr) =>
    storedEvent(MATCH_CREATED, "match.created", { ...matchColumns(userId), ...stored });
  const trade = storedEvent(TRADE_PRINTED, "trade.printed", { ...TAPE_TRADE, ...stored });
  return sql`SELECT m.requester_id AS stream, ${matchOf(atom("m.requester_id"))},
      m.match_id AS ord ${rows}
    UNION ALL SELECT m.maker_id, ${matchOf(atom("m.maker_id"))}, m.match_id ${rows}
    UNION ALL SELECT ${bookStreamOf("m")}, ${trade}, m.match_id ${rows}
    UNION ALL SELECT ${venueStreamOf("m")}, ${trade}, m.match_id ${rows}
    UNION ALL ${protectionsTripped(group)}`;
}
