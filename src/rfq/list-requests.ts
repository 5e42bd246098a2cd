import { fetchCount, olderThan, type PageQuery, pageOf, type TimeId } from "../http/cursor.ts";
import { NOW } from "../platform/commit.ts";
import { all, and, expr, raw, readUuid, type Sql, sql, uuid, select } from "../platform/sql.ts";
import { type BookFilter, examinedPage, inBook } from "./examined-page.ts";
import { reader, type RequestRow, requestColumns, requestView } from "./rfq-records.ts";
import { inStatuses } from "./status-ranges.ts";
import { REQUEST_STATUSES } from "./statuses.ts";

/** Open requests of all users, newest first. `user_id` is null unless own or disclosed. */
export function listOpenRequests(
  db: D1Database,
  userId: string,
  filter: BookFilter,
  page: PageQuery<TimeId>,
) {
  return list(db, userId, page, and(inBook("r.asset", filter)));
}

type OwnRequestsFilter = BookFilter & {
  readonly status: "open" | "all";
  readonly label?: string | undefined;
};

/** The caller's own requests, newest first. Those with a label are read from the index on it. */
export function listOwnRequests(
  db: D1Database,
  userId: string,
  { status, label, ...book }: OwnRequestsFilter,
  page: PageQuery<TimeId>,
) {
  const own = sql`r.requester_id = ${uuid(userId)}`;
  if (status === "open") {
    // The plus signs keep the index of the user's open requests, which are few.
    const labelled = label === undefined ? [] : [expr`+r.label = ${label}`];
    const chosen = and([...labelled, ...inBook("+r.asset", book)]);
    return list(db, userId, page, sql`${own} AND ${chosen}`);
  }
  const order = raw("opened_at DESC, request_id DESC");
  const columns = raw("r.opened_at, r.request_id");
  const where = sql`${own} AND ${olderThan(page, { at: "r.opened_at", id: "r.request_id" })}`;
  const ids = (limit: number) =>
    label === undefined
      ? inStatuses(undefined, {
          table: "r",
          statuses: REQUEST_STATUSES,
          columns,
          from: raw("requests r"),
          where,
          order,
          limit,
        })
      : sql`SELECT ${columns} FROM requests r WHERE r.label = ${label} AND ${where}
          ORDER BY r.opened_at DESC, r.request_id DESC LIMIT ${limit}`;
  return examinedPage(db, page, {
    filters: inBook("asset", book),
    rows: (limit) => sql`SELECT ${select(requestColumns(reader(userId)))}
      FROM (${ids(limit)}) own CROSS JOIN requests r ON r.request_id = own.request_id
      ORDER BY own.opened_at DESC, own.request_id DESC`,
    order,
    view: requestView,
    position: positionOf,
  });
}

const positionOf = (row: RequestRow) => ({ at: row.opened_at, id: readUuid(row.request_id) });

async function list(db: D1Database, userId: string, page: PageQuery<TimeId>, where: Sql) {
  const rows = await all<RequestRow>(
    db,
    sql`SELECT ${select(requestColumns(reader(userId)))} FROM requests r
      WHERE r.status = 'open' AND +r.expires_at > ${NOW} AND ${where}
        AND ${olderThan(page, { at: "r.opened_at", id: "r.request_id" })}
      ORDER BY r.opened_at DESC, r.request_id DESC LIMIT ${fetchCount(page)}`,
  );
  return pageOf(page, rows, requestView, positionOf);
}
