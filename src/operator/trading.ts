/** Pauses venues, ends what is stuck, and lists requests, quotes and matches, newest first. */
import { toHex } from "../assets/amount.ts";
import { auditRow, recordBy, uuidTextOf } from "../audit/audit.ts";
import { NOW } from "../platform/commit.ts";
import {
  all,
  and,
  type Expr,
  expr,
  literal,
  raw,
  type RowOf,
  select,
  sql,
  typed,
} from "../platform/sql.ts";
import {
  PUBLIC_AUDIENCE,
  quoteColumns,
  type QuoteRow,
  quoteView,
  requestColumns,
  type RequestRow,
  requestView,
  TAPE_TRADE,
  type TradeRow,
  tradeView,
} from "../rfq/rfq-records.ts";
import type { Venue } from "../platform/venues.ts";
import { pauseVenue, resumeVenue } from "../rfq/close-books.ts";
import { endStuck } from "../rfq/set-aside.ts";
import { QUOTE_STATUSES, REQUEST_STATUSES } from "../rfq/statuses.ts";
import { recordCommand } from "./audit-commands.ts";
import {
  actorOf,
  argument,
  checkVenues,
  idOption,
  limitOption,
  oneOfOption,
  type OperatorContext,
  optionalInteger,
} from "./context.ts";
import { emailOf, ofUserSince, type Owned, ownedBy, listedPage } from "./listed.ts";
import { OperatorRejection } from "./operator-rejection.ts";

export async function requests(context: OperatorContext): Promise<unknown> {
  const status = oneOfOption(context, "status", REQUEST_STATUSES);
  const rows = await all<RequestRow & Owned>(
    context.env.DB,
    sql`SELECT ${select({ ...requestColumns(PUBLIC_AUDIENCE), ...ownedBy("r.requester_id") })}
      FROM requests r
      WHERE ${and([
        ...(await ofUserSince(context, { id: "r.request_id", users: ["r.requester_id"] })),
        ...inStatus("r", status),
      ])}
      ORDER BY r.request_id DESC LIMIT ${limitOption(context)}`,
  );
  const shown = rows.map((row) => ({ ...requestView(row), user_id: row.owner, email: row.email }));
  return listedPage(context, shown, ({ request_id }) => request_id);
}

export async function quotes(context: OperatorContext): Promise<unknown> {
  const status = oneOfOption(context, "status", QUOTE_STATUSES);
  const rows = await all<QuoteRow & Owned>(
    context.env.DB,
    sql`SELECT ${select({ ...quoteColumns("maker"), ...ownedBy("q.maker_id") })} FROM quotes q
      WHERE ${and([
        ...(await ofUserSince(context, { id: "q.quote_id", users: ["q.maker_id"] })),
        ...inStatus("q", status),
      ])}
      ORDER BY q.quote_id DESC LIMIT ${limitOption(context)}`,
  );
  const shown = rows.map((row) => ({ ...quoteView(row), maker_id: row.owner, email: row.email }));
  return listedPage(context, shown, ({ quote_id }) => quote_id);
}

/** What only operators see of both sides. */
const BOTH = {
  requester_id: uuidTextOf("m.requester_id"),
  requester_email: emailOf("m.requester_id"),
  maker_id: uuidTextOf("m.maker_id"),
  maker_email: emailOf("m.maker_id"),
  taker_fee: typed<string>("CAST(m.taker_fee AS TEXT)"),
  maker_fee: typed<string>("CAST(m.maker_fee AS TEXT)"),
};

export async function matches(context: OperatorContext): Promise<unknown> {
  const users = ["m.requester_id", "m.maker_id"];
  const of = await ofUserSince(context, { id: "m.match_id", users });
  const rows = await all<TradeRow & RowOf<typeof BOTH>>(
    context.env.DB,
    sql`SELECT ${select({ ...TAPE_TRADE, ...BOTH })} FROM matches m WHERE ${and(of)}
      ORDER BY m.match_id DESC LIMIT ${limitOption(context)}`,
  );
  const shown = rows.map((row) => ({
    ...tradeView(row),
    requester_id: row.requester_id,
    requester_email: row.requester_email,
    maker_id: row.maker_id,
    maker_email: row.maker_email,
    taker_fee: toHex(BigInt(row.taker_fee)),
    maker_fee: toHex(BigInt(row.maker_fee)),
  }));
  return listedPage(context, shown, ({ match_id }) => match_id);
}

type MakerRow = {
  readonly maker_id: string;
  readonly email: string | null;
  readonly answers: number;
  readonly quotes: number;
  readonly accepted: number;
  readonly time_to_quote_ms: number;
};

/** How makers answered the requests of the last hour, the slowest first. Its cursor counts rows. */
export async function makers(context: OperatorContext): Promise<unknown> {
  const offset = optionalInteger(context, "cursor") ?? 0;
  const rows = await all<MakerRow>(
    context.env.DB,
    sql`SELECT ${uuidTextOf("a.maker_id")} AS maker_id, (${emailOf("a.maker_id")}) AS email,
        count(*) AS answers, sum(a.quotes) AS quotes, sum(a.accepted) AS accepted,
        CAST(avg(a.ms) AS INTEGER) AS time_to_quote_ms
      FROM (SELECT q.maker_id, count(*) AS quotes, sum(q.status = 'accepted') AS accepted,
          min(q.opened_at - r.opened_at) AS ms
        FROM quotes q CROSS JOIN requests r ON r.request_id = q.request_id
        GROUP BY q.maker_id, q.request_id) a
      GROUP BY a.maker_id ORDER BY time_to_quote_ms DESC, a.maker_id
      LIMIT ${limitOption(context)} OFFSET ${literal(offset)}`,
  );
  const shown = rows.map((row) => ({
    ...row,
    hit_percent: Math.round((1_000 * row.accepted) / row.answers) / 10,
  }));
  return listedPage(context, shown, () => offset + shown.length);
}

/** The status as readers see it: an open record past its time is expired. */
function inStatus(table: "r" | "q", status: string | undefined): Expr[] {
  if (status === undefined) return [];
  const [its, due] = [raw(`${table}.status`), raw(`${table}.expires_at`)];
  return [expr`iif(${its} = 'open' AND ${due} <= ${NOW}, 'expired', ${its}) = ${status}`];
}

/** Pauses a venue: rejects new requests and quotes, then cancels the open ones. */
export async function pause(context: OperatorContext): Promise<unknown> {
  const venue = servedVenue(context);
  await recordCommand(context, "venue_paused", venue);
  return {
    venue_id: venue,
    paused: true,
    cancelled_requests: await pauseVenue(context.env, venue),
  };
}

export async function resume(context: OperatorContext): Promise<unknown> {
  const venue = servedVenue(context);
  await recordCommand(context, "venue_resumed", venue);
  return { venue_id: venue, paused: false, changed: await resumeVenue(context.env.DB, venue) };
}

function servedVenue(context: OperatorContext): Venue {
  const venue = argument(context, "venue");
  checkVenues(context, [venue], "venue");
  return venue;
}

/** Ends a quote or request that was set aside, and closes its alert. */
export async function end(context: OperatorContext): Promise<unknown> {
  const id = idOption(context, "id");
  const record = recordBy(actorOf(context), "stuck_ended", { subjectId: id });
  const ended = await endStuck(context.env, id, (group, applied) => [
    auditRow(record, group.at, applied),
  ]);
  if (!ended)
    throw new OperatorRejection("not_stuck", `No quote or request ${id} has been set aside.`);
  return { id, ended: true };
}
