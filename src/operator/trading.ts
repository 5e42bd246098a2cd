/**
 * Lists requests, quotes and matches of all users or of one, newest first. Their ids contain the
 * time, so the primary key sorts them.
 */
import { NOW } from "../platform/commit.ts";
import {
  all,
  and,
  type Expr,
  expr,
  join,
  raw,
  readUuid,
  select,
  sql,
  uuid,
} from "../platform/sql.ts";
import {
  PUBLIC,
  quoteColumns,
  type QuoteRow,
  quoteView,
  requestColumns,
  type RequestRow,
  requestView,
  TRADE,
  type TradeRow,
  tradeView,
} from "../rfq/rfq-records.ts";
import { QUOTE_STATUSES, REQUEST_STATUSES } from "../rfq/tables.ts";
import { limitOption, oneOfOption, type OperatorContext } from "./context.ts";
import { userOf } from "./users.ts";

export async function requests(context: OperatorContext): Promise<unknown> {
  const status = oneOfOption(context, "status", REQUEST_STATUSES);
  const rows = await all<RequestRow & { owner: string }>(
    context.env.DB,
    sql`SELECT ${select(requestColumns(PUBLIC))}, hex(r.requester_id) AS owner FROM requests r
      WHERE ${and([...(await ofUser(context, "r.requester_id")), ...inStatus("r", status)])}
      ORDER BY r.request_id DESC LIMIT ${limitOption(context)}`,
  );
  return rows.map((row) => ({ ...requestView(row), user_id: readUuid(row.owner) }));
}

export async function quotes(context: OperatorContext): Promise<unknown> {
  const status = oneOfOption(context, "status", QUOTE_STATUSES);
  const rows = await all<QuoteRow & { owner: string }>(
    context.env.DB,
    sql`SELECT ${select(quoteColumns("maker"))}, hex(q.maker_id) AS owner FROM quotes q
      WHERE ${and([...(await ofUser(context, "q.maker_id")), ...inStatus("q", status)])}
      ORDER BY q.quote_id DESC LIMIT ${limitOption(context)}`,
  );
  return rows.map((row) => ({ ...quoteView(row), maker_id: readUuid(row.owner) }));
}

type MatchOfBoth = TradeRow & {
  readonly requester: string;
  readonly maker: string;
  readonly taker_fee: string;
  readonly maker_fee: string;
};

export async function matches(context: OperatorContext): Promise<unknown> {
  const of = await ofUser(context, "m.requester_id", "m.maker_id");
  const rows = await all<MatchOfBoth>(
    context.env.DB,
    sql`SELECT ${select(TRADE)}, hex(m.requester_id) AS requester, hex(m.maker_id) AS maker,
        CAST(m.taker_fee AS TEXT) AS taker_fee, CAST(m.maker_fee AS TEXT) AS maker_fee
      FROM matches m WHERE ${and(of)} ORDER BY m.match_id DESC LIMIT ${limitOption(context)}`,
  );
  return rows.map((row) => ({
    ...tradeView(row),
    requester_id: readUuid(row.requester),
    maker_id: readUuid(row.maker),
    taker_fee: hex(row.taker_fee),
    maker_fee: hex(row.maker_fee),
  }));
}

/** Conditions for the user of `--email` or `--user-id`, if one is given. Columns are trusted. */
async function ofUser(context: OperatorContext, ...columns: readonly string[]): Promise<Expr[]> {
  if (context.options["email"] === undefined && context.options["user-id"] === undefined) return [];
  const userId = await userOf(context);
  const is = columns.map((column) => expr`${raw(column)} = ${uuid(userId)}`);
  return [expr`${join(is, " OR ")}`];
}

/** As readers see it: an open record past its time is expired. */
function inStatus(table: "r" | "q", status: string | undefined): Expr[] {
  if (status === undefined) return [];
  const [its, due] = [raw(`${table}.status`), raw(`${table}.expires_at`)];
  return [expr`iif(${its} = 'open' AND ${due} <= ${NOW}, 'expired', ${its}) = ${status}`];
}

function hex(units: string): string {
  return `0x${BigInt(units).toString(16)}`;
}
