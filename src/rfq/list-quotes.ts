import { fetchCount, olderThan, type PageQuery, pageOf, type TimeId } from "../http/cursor.ts";
import { NOW } from "../platform/commit.ts";
import { problem } from "../platform/problem.ts";
import {
  batch,
  expr,
  FALSE,
  raw,
  readUuid,
  select,
  type Sql,
  sql,
  TRUE,
  uuid,
} from "../platform/sql.ts";
import type { QuoteFilter } from "./cancel-quotes.ts";
import { examinedPage, inBook } from "./examined-page.ts";
import { notListed } from "./get-records.ts";
import { quoteColumns, type QuoteRow, quoteView } from "./rfq-records.ts";
import type { Side } from "../assets/asset-fields.ts";
import { inStatuses } from "./status-ranges.ts";
import { QUOTE_STATUSES, type QuoteStatus } from "./statuses.ts";

/** Sort position among a request's quotes: side, price, time and id. Bid precedes Ask. */
export type QuotePosition = readonly [side: Side, price: number, openedAt: number, quoteId: string];

type QuotesFilter = {
  readonly requestId: string;
  readonly side?: Side | undefined;
  readonly status?: QuoteStatus | undefined;
};

/** Quotes on the caller's request, best for the requester first, then oldest first. */
export async function listQuotesOnRequest(
  db: D1Database,
  userId: string,
  query: QuotesFilter,
  page: PageQuery<QuotePosition>,
) {
  const [found, bids = [], asks = []] = await batch(db, [
    sql`SELECT requester_id = ${uuid(userId)} AS own FROM requests
        WHERE request_id = ${uuid(query.requestId)}`,
    quotesOnRequest(userId, query, "Bid", page),
    quotesOnRequest(userId, query, "Ask", page),
  ]);
  // Safe casts: the statements select these columns.
  const [request] = found as { own: number }[];
  const rows = [...bids, ...asks] as QuoteRow[];
  if (request === undefined) throw notListed("request", query.requestId);
  if (request.own !== 1) throw problem("not_request_owner", "The request belongs to someone else.");
  return pageOf(page, rows, quoteView, (row) => [
    row.side,
    row.price,
    row.opened_at,
    readUuid(row.quote_id),
  ]);
}

/** The quotes of one side, if the request is the caller's. */
function quotesOnRequest(
  userId: string,
  query: QuotesFilter,
  side: Side,
  page: PageQuery<QuotePosition>,
): Sql {
  const bid = side === "Bid";
  return inStatuses(query.status, {
    table: "q",
    statuses: QUOTE_STATUSES,
    columns: select(quoteColumns("requester")),
    from: sql`requests r CROSS JOIN quotes q ON q.request_id = r.request_id`,
    where: sql`r.request_id = ${uuid(query.requestId)} AND r.requester_id = ${uuid(userId)}
      AND r.side IN (${side}, 'TwoWay') AND q.side = ${side}
      AND ${query.side === undefined || query.side === side ? TRUE : FALSE}
      AND ${worseThan(page, side)}`,
    order: raw(bid ? "price, opened_at, quote_id" : "price DESC, opened_at, quote_id"),
    limit: fetchCount(page),
  });
}

/** The caller's own quotes, newest first. Only open ones are sorted, of which there are few. */
export function listOwnQuotes(
  db: D1Database,
  userId: string,
  { status, requestId, label, ...book }: QuoteFilter & { status?: QuoteStatus | undefined },
  page: PageQuery<TimeId>,
) {
  const columns = select(quoteColumns("maker"));
  const own = sql`q.maker_id = ${uuid(userId)}
    AND ${olderThan(page, { at: "q.opened_at", id: "q.quote_id" })}`;
  const order = raw("opened_at DESC, quote_id DESC");
  // The open ones have an index of their own.
  const onlyOpen = label === undefined && status === "open";
  const inStatus = onlyOpen || status === undefined ? [] : [expr`status = ${status}`];
  const ofRequest = requestId === undefined ? [] : [expr`request_id = hex(${uuid(requestId)})`];
  return examinedPage(db, page, {
    filters: [...inStatus, ...ofRequest, ...inBook("asset", book)],
    rows: (limit) => sql`SELECT ${columns}
      FROM quotes q ${raw(onlyOpen ? "INDEXED BY quotes_open_maker" : "")} WHERE ${own}
      AND ${label === undefined ? TRUE : expr`q.label = ${label}`}
      AND ${onlyOpen ? expr`q.status = 'open' AND q.expires_at > ${NOW}` : TRUE}
      ORDER BY q.opened_at DESC, q.quote_id DESC LIMIT ${limit}`,
    order,
    view: quoteView,
    position: (row) => ({ at: row.opened_at, id: readUuid(row.quote_id) }),
  });
}

function worseThan(page: PageQuery<QuotePosition>, side: Side): Sql {
  const after = page.last_cursor?.position;
  if (after === undefined) return TRUE;
  const [lastSide, price, openedAt, quoteId] = after;
  if (lastSide !== side) return side === "Ask" ? TRUE : FALSE;
  return sql`(${raw(side === "Bid" ? "q.price >" : "q.price <")} ${price}
    OR (q.price = ${price} AND (q.opened_at, q.quote_id) > (${openedAt}, ${uuid(quoteId)})))`;
}
