/**
 * What a new subscriber of a book or venue stream receives first: the open requests, without
 * identities.
 */
import { NOW } from "../platform/commit.ts";
import { sql, select } from "../platform/sql.ts";
import type { Snapshot } from "../streams/replay.ts";
import { PUBLIC, requestColumns, type RequestRow, requestView } from "./records.ts";

/** Undefined for account streams, which have no snapshot. */
export function openRequestsSnapshot(stream: string): Snapshot | undefined {
  if (stream.startsWith("account:")) return undefined;
  const scope = stream.startsWith("book:")
    ? sql`r.asset = ${stream.slice("book:".length)}`
    : sql`r.asset >= ${`${stream.slice("venue:".length)}:`}
      AND r.asset < ${`${stream.slice("venue:".length)};`}`;
  return {
    name: "requests",
    statement: sql`SELECT ${select(requestColumns(PUBLIC))} FROM requests r
      WHERE r.status = 'open' AND ${scope} AND +r.expires_at > ${NOW}
      ORDER BY r.asset, r.opened_at, r.request_id`,
    // Safe cast: the statement above selects the columns of the row type.
    view: (row) => requestView(row as RequestRow),
  };
}
