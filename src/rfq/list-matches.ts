import { olderThan, type PageQuery, type TimeId } from "../http/cursor.ts";
import type { RecordArchive } from "../archive/cold-records.ts";
import { and, expr, raw, readUuid, select, type Sql, sql, TRUE, uuid } from "../platform/sql.ts";
import { type BookFilter, examinedPage, inBook, type Period } from "./examined-page.ts";
import { matchColumns, matchView } from "./rfq-records.ts";
import { matchRow } from "./sealed-rows.ts";

type MatchFilter = BookFilter &
  Period & {
    readonly role?: "requester" | "maker" | undefined;
    readonly label?: string | undefined;
  };

/** The caller's matches, newest first. Each role and a label have an index of their own. */
export function listMatches(
  archive: RecordArchive,
  userId: string,
  filter: MatchFilter,
  page: PageQuery<TimeId>,
) {
  const { role, label, from = 0, to } = filter;
  const older = olderThan(page, { at: "m.at", id: "m.match_id" });
  const inPeriod = and([expr`m.at >= ${from}`, ...(to === undefined ? [] : [expr`m.at <= ${to}`])]);
  const side = (as: "requester" | "maker", limit: number) => {
    const labelled = label === undefined ? TRUE : expr`${raw(`m.${as}_label`)} = ${label}`;
    return sql`SELECT * FROM (SELECT m.match_id AS id FROM matches m
      WHERE ${raw(`m.${as}_id`)} = ${uuid(userId)} AND ${labelled} AND ${inPeriod} AND ${older}
      ORDER BY m.at DESC, m.match_id DESC LIMIT ${limit})`;
  };
  const sides = (limit: number): Sql =>
    role === undefined
      ? sql`${side("requester", limit)} UNION ${side("maker", limit)}`
      : side(role, limit);
  return examinedPage(archive, userId, page, {
    filters: inBook("asset", filter),
    rows: (limit) => sql`SELECT ${select(matchColumns(uuid(userId)))} FROM matches m
      JOIN (${sides(limit)}) own ON own.id = m.match_id
      ORDER BY m.at DESC, m.match_id DESC LIMIT ${limit}`,
    order: raw("at DESC, match_id DESC"),
    view: matchView,
    position: (row) => ({ at: row.at, id: readUuid(row.match_id) }),
    cold: {
      filter: { kind: "matches", ...filter },
      row: (record) => matchRow(record, userId),
    },
  });
}
