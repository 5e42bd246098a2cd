import type { Venue } from "../platform/venues.ts";
import {
  fetchCount,
  olderThan,
  type Page,
  type PageQuery,
  pageOf,
  type TimeId,
} from "../http/cursor.ts";
import { NOW } from "../platform/commit.ts";
import { all, raw, readUuid, type Sql, sql, uuid, select } from "../platform/sql.ts";
import { reader, type RequestRow, requestColumns, requestView } from "./records.ts";

export type RequestFilter = {
  readonly venue?: Venue | undefined;
  readonly assetId?: string | undefined;
};

/**
 * Open requests of all users, newest first. `user_id` is shown only for the caller's own and for
 * disclosed requests.
 */
export function listOpenRequests(
  db: D1Database,
  userId: string,
  filter: RequestFilter,
  page: PageQuery<TimeId>,
) {
  return list(db, userId, page, inBooks(filter));
}

export function listOwnRequests(db: D1Database, userId: string, page: PageQuery<TimeId>) {
  return list(db, userId, page, sql`r.requester_id = ${uuid(userId)}`);
}

function inBooks({ venue, assetId }: RequestFilter): Sql {
  if (venue === undefined) return sql`1`;
  if (assetId !== undefined) return sql`r.asset = ${`${venue}:${assetId}`}`;
  // Every key of a venue sorts between `venue:` and `venue;`, because `;` follows `:`.
  return sql`r.asset >= ${`${venue}:`} AND r.asset < ${`${venue};`}`;
}

async function list(
  db: D1Database,
  userId: string,
  page: PageQuery<TimeId>,
  where: Sql,
): Promise<Page<ReturnType<typeof requestView>>> {
  const rows = await all<RequestRow>(
    db,
    sql`SELECT ${select(requestColumns(reader(userId)))} FROM requests r
      WHERE r.status = 'open' AND +r.expires_at > ${NOW} AND ${where}
        AND ${olderThan(page, { at: "r.opened_at", id: "r.request_id" })}
      ORDER BY ${raw("r.opened_at DESC, r.request_id DESC")} LIMIT ${fetchCount(page)}`,
  );
  return pageOf(page, rows, requestView, (row) => ({
    at: row.opened_at,
    id: readUuid(row.request_id),
  }));
}
