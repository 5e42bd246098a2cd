import {
  fetchCount,
  olderThan,
  type Page,
  type PageQuery,
  pageOf,
  type TimeId,
} from "../http/cursor.ts";
import { all, raw, readUuid, sql, uuid, select } from "../platform/sql.ts";
import { matchColumns, type MatchRow, matchView } from "./records.ts";

/**
 * The caller's matches as requester or maker, newest first. Each role is read from its own index.
 */
export async function listMatches(
  db: D1Database,
  userId: string,
  page: PageQuery<TimeId>,
): Promise<Page<ReturnType<typeof matchView>>> {
  const older = olderThan(page, { at: "m.at", id: "m.match_id" });
  const side = (
    column: "requester_id" | "maker_id",
  ) => sql`SELECT * FROM (SELECT m.match_id AS id, m.at AS matched_at FROM matches m
    WHERE ${raw(`m.${column}`)} = ${uuid(userId)} AND ${older} ORDER BY m.at DESC, m.match_id DESC
      LIMIT ${fetchCount(page)})`;
  const rows = await all<MatchRow>(
    db,
    sql`SELECT ${select(matchColumns(uuid(userId)))} FROM matches m
      JOIN (${side("requester_id")} UNION ${side("maker_id")}) own ON own.id = m.match_id
      ORDER BY m.at DESC, m.match_id DESC LIMIT ${fetchCount(page)}`,
  );
  return pageOf(page, rows, matchView, (row) => ({ at: row.at, id: readUuid(row.match_id) }));
}
