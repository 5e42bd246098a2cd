import { fetchCount, olderThan, type Page, type PageQuery, pageOf, type TimeId } from "../platform/cursor.ts";
import { NOW } from "../platform/commit.ts";
import { problem } from "../platform/problem.ts";
import { all, first, raw, readUuid, type Sql, sql, uuid } from "../platform/sql.ts";
import { quoteColumns, type QuoteRow, type QuoteState, quoteView, select } from "./records.ts";

/** Sort position among a request's quotes: price, then when and which. */
export type QuotePosition = readonly [price: number, openedAt: number, quoteId: string];

type QuotePage = Page<ReturnType<typeof quoteView>>;

/** Quotes on the caller's request, best for the requester first (Bid: lowest price, Ask: highest), then oldest. */
export async function listQuotesOnRequest(
  db: D1Database,
  userId: string,
  query: { readonly requestId: string; readonly state?: QuoteState | undefined },
  page: PageQuery<QuotePosition>,
): Promise<QuotePage> {
  const request = await first<{ own: number; side: string }>(
    db,
    sql`SELECT requester_id = ${uuid(userId)} AS own, side FROM requests WHERE request_id = ${uuid(query.requestId)}`,
  );
  if (request === undefined) throw problem("request_unknown", `There is no request ${query.requestId}.`);
  if (request.own !== 1) throw problem("not_request_owner", "The request belongs to someone else.");
  const bid = request.side === "Bid";
  const rows = await all<QuoteRow>(
    db,
    sql`SELECT ${select(quoteColumns("taker_fee"))} FROM quotes q
      WHERE q.request_id = ${uuid(query.requestId)} AND ${inState(query.state)} AND ${worseThan(page, bid)}
      ORDER BY ${raw(bid ? "q.price" : "q.price DESC")}, q.opened_at, q.quote_id LIMIT ${fetchCount(page)}`,
  );
  return pageOf(page, rows, quoteView, (row) => [row.price, row.opened_at, readUuid(row.quote_id)]);
}

/** The caller's own quotes, newest first. */
export async function listOwnQuotes(
  db: D1Database,
  userId: string,
  query: { readonly state?: QuoteState | undefined },
  page: PageQuery<TimeId>,
): Promise<QuotePage> {
  const rows = await all<QuoteRow>(
    db,
    sql`SELECT ${select(quoteColumns("maker_fee"))} FROM quotes q
      WHERE q.maker_id = ${uuid(userId)} AND ${inState(query.state)} AND ${olderThan(page, { at: "q.opened_at", id: "q.quote_id" })}
      ORDER BY q.opened_at DESC, q.quote_id DESC LIMIT ${fetchCount(page)}`,
  );
  return pageOf(page, rows, quoteView, (row) => ({ at: row.opened_at, id: readUuid(row.quote_id) }));
}

/** As reads show it: an open quote past its time is expired, even before its reserve is released. */
function inState(state: QuoteState | undefined): Sql {
  if (state === undefined) return sql`1`;
  if (state === "open") return sql`q.state = 'open' AND q.expires_at > ${NOW}`;
  if (state === "expired") return sql`(q.state = 'expired' OR (q.state = 'open' AND q.expires_at <= ${NOW}))`;
  return sql`q.state = ${state}`;
}

function worseThan(page: PageQuery<QuotePosition>, bid: boolean): Sql {
  const after = page.last_cursor?.position;
  if (after === undefined) return sql`1`;
  const [price, openedAt, quoteId] = after;
  return sql`(${raw(bid ? "q.price >" : "q.price <")} ${price}
    OR (q.price = ${price} AND (q.opened_at, q.quote_id) > (${openedAt}, ${uuid(quoteId)})))`;
}
