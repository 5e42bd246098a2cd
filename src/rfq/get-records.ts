/** Reads one record by id. Another user's is unknown. The caller's old ones are in the archive. */
import { findCold, type RecordArchive } from "../archive/cold-records.ts";
import type { RecordKey } from "../archive/record-page.ts";
import { NOW } from "../platform/commit.ts";
import { problem } from "../platform/problem.ts";
import { first, raw, select, sql, uuid } from "../platform/sql.ts";
import {
  matchColumns,
  type MatchRow,
  matchView,
  quoteColumns,
  type QuoteRow,
  quoteView,
  reader,
  requestColumns,
  type RequestRow,
  requestView,
} from "./rfq-records.ts";
import { matchRow, quoteRow, requestRow } from "./sealed-rows.ts";

/** The caller's own request in any status, or another user's while it is open. */
export async function getRequest(archive: RecordArchive, userId: string, requestId: string) {
  const row = await first<RequestRow>(
    archive.db,
    sql`SELECT ${select(requestColumns(reader(userId)))} FROM requests r
      WHERE r.request_id = ${uuid(requestId)} AND (r.requester_id = ${uuid(userId)}
        OR (r.status = 'open' AND r.expires_at > ${NOW}))`,
  );
  if (row !== undefined) return requestView(row);
  const key = { kind: "requests", by: "request_id", id: requestId } as const;
  const old = await findCold(archive, userId, key);
  if (old === undefined) throw problem("request_unknown", `There is no request ${requestId}.`);
  return requestView(requestRow(old));
}

/** The caller's own quote, or a quote on their request as the requester sees it. */
export async function getQuote(archive: RecordArchive, userId: string, quoteId: string) {
  // Nobody quotes their own request, so at most one of the two finds it.
  const row = await first<QuoteRow>(
    archive.db,
    sql`SELECT ${select(quoteColumns("maker"))} FROM quotes q
        WHERE q.quote_id = ${uuid(quoteId)} AND q.maker_id = ${uuid(userId)}
      UNION ALL
      SELECT ${select(quoteColumns("requester"))} FROM quotes q
        CROSS JOIN requests r ON r.request_id = q.request_id
        WHERE q.quote_id = ${uuid(quoteId)} AND r.requester_id = ${uuid(userId)}`,
  );
  if (row !== undefined) return quoteView(row);
  const old = await findCold(archive, userId, { kind: "quotes", by: "quote_id", id: quoteId });
  if (old === undefined) throw problem("quote_unknown", `There is no quote ${quoteId}.`);
  return quoteView(quoteRow(old));
}

/** Exactly one of the ids. A request and a quote match at most once. */
type MatchLookup = { readonly [By in RecordKey["by"]]?: string | undefined };

/** The caller's match as requester or maker. */
export async function getMatch(archive: RecordArchive, userId: string, lookup: MatchLookup) {
  const caller = uuid(userId);
  const { by, id } = keyOf(lookup);
  const row = await first<MatchRow>(
    archive.db,
    sql`SELECT ${select(matchColumns(caller))} FROM matches m
      WHERE ${raw(`m.${by}`)} = ${uuid(id)} AND (m.requester_id = ${caller} OR m.maker_id = ${caller})`,
  );
  if (row !== undefined) return matchView(row);
  const old = await findCold(archive, userId, { kind: "matches", by, id });
  if (old === undefined) throw problem("match_unknown", "You have no such match.");
  return matchView(matchRow(old, userId));
}

function keyOf({ match_id, quote_id, request_id }: MatchLookup): RecordKey {
  if (match_id !== undefined) return { by: "match_id", id: match_id };
  if (quote_id !== undefined) return { by: "quote_id", id: quote_id };
  return { by: "request_id", id: request_id ?? "" };
}
