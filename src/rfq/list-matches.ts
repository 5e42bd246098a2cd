import { olderThan, type Page, type PageQuery, type TimeId } from "../http/cursor.ts";
import { and, expr, raw, readUuid, select, type Sql, sql, uuid } from "../platform/sql.ts";
import { type BookFilter, examinedPage, inBook } from "./examined-page.ts";
import { matchColumns, type MatchRow, matchView } from "./records.ts";

export type MatchFilter = BookFilter & {
  readonly role?: "requester" | "maker" | undefined;
  /** Unix milliseconds, both included. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
};

/**
 * The caller's matches as requester or maker, newest first. Each role is read from its own index.
 */
export function listMatches(
  db: D1Database,
  userId: string,
  filter: MatchFilter,
  page: PageQuery<TimeId>,
): Promise<Page<ReturnType<typeof matchView>>> {
  const { role, from = 0, to } = filter;
  const older = olderThan(page, { at: "m.at", id: "m.match_id" });
  const inPeriod = and([expr`m.at >= ${from}`, ...(to === undefined ? [] : [expr`m.at <= ${to}`])]);
  const side = (column: "requester_id" | "maker_id", limit: number) =>
    sql`SELECT * FROM (SELECT m.match_id AS id FROM matches m
      WHERE ${raw(`m.${column}`)} = ${uuid(userId)} AND ${inPeriod} AND ${older}
      ORDER BY m.at DESC, m.match_id DESC LIMIT ${limit})`;
  const sides = (limit: number): Sql => {
    if (role === "requester") return side("requester_id", limit);
    if (role === "maker") return side("maker_id", limit);
    return sql`${side("requester_id", limit)} UNION ${side("maker_id", limit)}`;
  };
  return examinedPage<MatchRow, ReturnType<typeof matchView>>(db, page, {
    filters: inBook("asset", filter),
    rows: (limit) => sql`SELECT ${select(matchColumns(uuid(userId)))} FROM matches m
      JOIN (${sides(limit)}) own ON own.id = m.match_id
      ORDER BY m.at DESC, m.match_id DESC LIMIT ${limit}`,
    order: raw("at DESC, match_id DESC"),
    view: matchView,
    position: (row) => ({ at: row.at, id: readUuid(row.match_id) }),
  });
}
