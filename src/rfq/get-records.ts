/** Reads one request, quote or match by its id. Another user's record is unknown to the caller. */
import { NOW } from "../platform/commit.ts";
import { problem } from "../platform/problem.ts";
import { type Expr, expr, first, select, sql, uuid } from "../platform/sql.ts";
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
} from "./records.ts";

/** The caller's own request in any status, or another user's while it is open. */
export async function getRequest(
  db: D1Database,
  userId: string,
  requestId: string,
): Promise<ReturnType<typeof requestView>> {
  const row = await first<RequestRow>(
    db,
    sql`SELECT ${select(requestColumns(reader(userId)))} FROM requests r
      WHERE r.request_id = ${uuid(requestId)} AND (r.requester_id = ${uuid(userId)}
        OR (r.status = 'open' AND r.expires_at > ${NOW}))`,
  );
  if (row === undefined) throw problem("request_unknown", `There is no request ${requestId}.`);
  return requestView(row);
}

/** The caller's own quote, or a quote on their request as the requester sees it. */
export async function getQuote(
  db: D1Database,
  userId: string,
  quoteId: string,
): Promise<ReturnType<typeof quoteView>> {
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
  if (row === undefined) throw problem("quote_unknown", `There is no quote ${quoteId}.`);
  return quoteView(row);
}

/** Exactly one of the ids. A request and a quote match at most once. */
export type MatchLookup = {
  readonly match_id?: string | undefined;
  readonly quote_id?: string | undefined;
  readonly request_id?: string | undefined;
};

/** The caller's match as requester or maker. */
export async function getMatch(
  db: D1Database,
  userId: string,
  lookup: MatchLookup,
): Promise<ReturnType<typeof matchView>> {
  const caller = uuid(userId);
  const row = await first<MatchRow>(
    db,
    sql`SELECT ${select(matchColumns(caller))} FROM matches m
      WHERE ${named(lookup)} AND (m.requester_id = ${caller} OR m.maker_id = ${caller})`,
  );
  if (row === undefined) throw problem("match_unknown", "You have no such match.");
  return matchView(row);
}

function named({ match_id, quote_id, request_id }: MatchLookup): Expr {
  if (match_id !== undefined) return expr`m.match_id = ${uuid(match_id)}`;
  if (quote_id !== undefined) return expr`m.quote_id = ${uuid(quote_id)}`;
  return expr`m.request_id = ${uuid(request_id ?? "")}`;
}
