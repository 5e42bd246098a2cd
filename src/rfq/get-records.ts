/** Reads one record by id. Another user's is unknown. The caller's old matches are in the archive. */
import type { OwnRecords } from "../archive/ask-history.ts";
import { type Archived, archivedRows } from "../ledger/released.ts";
import { NOW } from "../platform/commit.ts";
import { type Problem, problem } from "../platform/problem.ts";
import { batch, first, raw, select, sql, uuid } from "../platform/sql.ts";
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

/** The caller's own request in any status, or another user's while it is open. */
export async function getRequest(db: D1Database, userId: string, requestId: string) {
  const row = await first<RequestRow>(
    db,
    sql`SELECT ${select(requestColumns(reader(userId)))} FROM requests r
      WHERE r.request_id = ${uuid(requestId)} AND (r.requester_id = ${uuid(userId)}
        OR (r.status = 'open' AND r.expires_at > ${NOW}))`,
  );
  if (row === undefined) throw notListed("request", requestId);
  return requestView(row);
}

/** The caller's own quote, or a quote on their request as the requester sees it. */
export async function getQuote(db: D1Database, userId: string, quoteId: string) {
  // Nobody quotes their own request, so at most one of the two finds it.
  const row = await first<QuoteRow>(
    db,
    sql`SELECT ${select(quoteColumns("maker"))} FROM quotes q
        WHERE q.quote_id = ${uuid(quoteId)} AND q.maker_id = ${uuid(userId)}
      UNION ALL
      SELECT ${select(quoteColumns("requester"))} FROM quotes q
        CROSS JOIN requests r ON r.request_id = q.request_id
        WHERE q.quote_id = ${uuid(quoteId)} AND r.requester_id = ${uuid(userId)}`,
  );
  if (row === undefined) throw notListed("quote", quoteId);
  return quoteView(row);
}

/** The database does not keep what ended long ago. */
export function notListed(kind: "request" | "quote", id: string): Problem {
  return problem(
    `${kind}_unknown`,
    `There is no ${kind} ${id}. Those that ended long ago are in GET /rfq/export-records.`,
  );
}

/** Exactly one of the ids. A request and a quote match at most once. */
type MatchLookup = Readonly<
  Partial<Record<"match_id" | "quote_id" | "request_id", string | undefined>>
>;

/** The caller's match as requester or maker. */
export async function getMatch({ db, old }: OwnRecords, userId: string, lookup: MatchLookup) {
  const caller = uuid(userId);
  const { by, id } = keyOf(lookup);
  const match = sql`SELECT ${select(matchColumns(caller))} FROM matches m
    WHERE ${raw(`m.${by}`)} = ${uuid(id)} AND (m.requester_id = ${caller} OR m.maker_id = ${caller})`;
  // Safe casts: the columns of the two statements.
  const [left, here] = await batch<unknown>(db, [archivedRows(userId, "matches"), match]);
  const [archived] = left as Archived[];
  const [row] = here as MatchRow[];
  if (row !== undefined) return matchView(row);
  const [[found] = []] = archived === undefined ? [] : await old(archived, [match]);
  if (found === undefined) throw problem("match_unknown", "You have no such match.");
  return matchView(found as MatchRow);
}

function keyOf({ match_id, quote_id, request_id }: MatchLookup) {
  if (match_id !== undefined) return { by: "match_id", id: match_id };
  if (quote_id !== undefined) return { by: "quote_id", id: quote_id };
  return { by: "request_id", id: request_id ?? "" };
}
