/** The open requests and quotes that new subscribers receive first. */
import { NOW } from "../platform/commit.ts";
import { sql, select, uuid } from "../platform/sql.ts";
import type { Snapshot, SnapshotPart } from "../streams/replay.ts";
import {
  PUBLIC,
  quoteColumns,
  type QuoteRow,
  quoteView,
  reader,
  requestColumns,
  type RequestRow,
  requestView,
} from "./rfq-records.ts";

/** Of a book or venue stream: its open requests, without identities. */
export function openRequestsSnapshot(stream: string): Snapshot {
  const scope = stream.startsWith("book:")
    ? sql`r.asset = ${stream.slice("book:".length)}`
    : sql`r.asset >= ${`${stream.slice("venue:".length)}:`}
      AND r.asset < ${`${stream.slice("venue:".length)};`}`;
  return [
    {
      name: "requests",
      statement: sql`SELECT ${select(requestColumns(PUBLIC))} FROM requests r
        WHERE r.status = 'open' AND ${scope} AND +r.expires_at > ${NOW}
        ORDER BY r.asset, r.opened_at, r.request_id`,
      view: requestOf,
    },
  ];
}

/**
 * Of an account stream: the user's own open requests and quotes, oldest first. A quote that has
 * expired holds its reserve until it is closed, so it is here until then. Without it, the balances
 * would contain a reserve that no quote explains.
 */
export function ownOpenRecords(userId: string): SnapshotPart[] {
  return [
    {
      name: "requests",
      statement: sql`SELECT ${select(requestColumns(reader(userId)))} FROM requests r
        WHERE r.requester_id = ${uuid(userId)} AND r.status = 'open' AND +r.expires_at > ${NOW}
        ORDER BY r.opened_at, r.request_id`,
      view: requestOf,
    },
    {
      name: "quotes",
      // Only the open ones are sorted, of which there are few. The index in order has all of them.
      statement: sql`SELECT ${select(quoteColumns("maker"))}
        FROM quotes q INDEXED BY quotes_open_maker
        WHERE q.maker_id = ${uuid(userId)} AND q.status = 'open'
        ORDER BY q.opened_at, q.quote_id`,
      view: (row) => quoteView(row as QuoteRow),
    },
  ];
}

// Safe casts: the statements above select the columns of the row types.
const requestOf = (row: unknown) => requestView(row as RequestRow);
