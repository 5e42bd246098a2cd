import type { OwnRecords } from "../archive/ask-history.ts";
import { olderThan, type PageQuery, pageOf, type TimeId } from "../http/cursor.ts";
import { type Archived, archivedRows } from "../ledger/released.ts";
import {
  and,
  batch,
  expr,
  raw,
  readUuid,
  select,
  type Sql,
  sql,
  TRUE,
  uuid,
} from "../platform/sql.ts";
import {
  type BookFilter,
  examinedPart,
  examinedRows,
  inBook,
  type Period,
  shownPage,
} from "./examined-page.ts";
import { matchColumns, type MatchRow, matchView } from "./rfq-records.ts";

type MatchFilter = BookFilter &
  Period & {
    readonly role?: "requester" | "maker" | undefined;
    readonly label?: string | undefined;
  };

/** The caller's matches, newest first: those of the database, then those of their history. */
export async function listMatches(
  { db, old }: OwnRecords,
  userId: string,
  filter: MatchFilter,
  page: PageQuery<TimeId>,
) {
  const hot = matchesOf(userId, filter, page);
  if (page.limit === 0) return pageOf(page, [], matchView, hot.position);
  const [left, ...found] = await batch<unknown>(db, [
    archivedRows(userId, "matches", filter.from),
    ...examinedRows(page, hot),
  ]);
  const here = examinedPart(found, hot);
  // Safe cast: the columns of the statement.
  const [archived] = left as Archived[];
  if (archived === undefined || here.end !== null || here.rows.length > page.limit)
    return shownPage(page, hot, here);
  // A seal ends between two instants. The history may have younger matches, which are also here.
  const to = Math.min(filter.to ?? Infinity, archived.lastAt);
  const cold = matchesOf(userId, { ...filter, to }, page);
  const there = examinedPart(await old(archived, examinedRows(page, cold)), cold);
  const rows = [...here.rows, ...there.rows];
  return shownPage(page, cold, { ...there, rows, examined: here.examined + there.examined });
}

/** Each role and a label have an index of their own. */
function matchesOf(userId: string, filter: MatchFilter, page: PageQuery<TimeId>) {
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
  return {
    filters: inBook("asset", filter),
    rows: (limit: number) => sql`SELECT ${select(matchColumns(uuid(userId)))} FROM matches m
      JOIN (${sides(limit)}) own ON own.id = m.match_id
      ORDER BY m.at DESC, m.match_id DESC LIMIT ${limit}`,
    order: raw("at DESC, match_id DESC"),
    view: matchView,
    position: (row: MatchRow) => ({ at: row.at, id: readUuid(row.match_id) }),
  };
}
