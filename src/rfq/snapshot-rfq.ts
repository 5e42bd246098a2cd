/** The open requests and quotes that new subscribers receive first. */
import { NOW } from "../platform/commit.ts";
import { and, sql, select, uuid } from "../platform/sql.ts";
import type { Snapshot, SnapshotPart } from "../streams/replay.ts";
import { inBook } from "./examined-page.ts";
import {
  PUBLIC_AUDIENCE,
  quoteColumns,
  type QuoteRow,
  quoteView,
  reader,
  requestColumns,
  type RequestRow,
  requestView,
} from "./rfq-records.ts";

/** The snapshot of a book or venue stream: its open requests, without identities. */
export function openRequestsSnapshot(stream: string): Snapshot {
  const [, venue, assetId] = stream.split(":");
  return [
    {
      name: "requests",
      statement: sql`SELECT ${select(requestColumns(PUBLIC_AUDIENCE))} FROM requests r
        WHERE r.status = 'open' AND ${and(inBook("r.asset", { venue, assetId }))}
          AND +r.expires_at > ${NOW}
        ORDER BY r.asset, r.opened_at, r.request_id`,
      view: requestOf,
    },
  ];
}

/**
 * The user's own open requests and quotes, oldest first. An expired quote holds its reserve until
 * it is closed, so it is listed until then. Else no quote would explain that reserve.
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
