/** Cancels the maker's open quotes in every book, or those that match a filter, in one batch. */
import { actorRejection, mayWrite } from "../auth/may-write.ts";
import type { Actor } from "../platform/actor.ts";
import { Problem } from "../platform/problem.ts";
import { and, type Expr, expr, sql, uuid } from "../platform/sql.ts";
import { closeQuotes, countEnded } from "./close-quotes.ts";
import { type BookFilter, inBook } from "./examined-page.ts";

export type QuoteFilter = BookFilter & {
  readonly requestId?: string | undefined;
  readonly label?: string | undefined;
};

/** Returns the number cancelled. Those past their time are left to expire. */
export async function cancelQuotes(env: Env, actor: Actor, filter: QuoteFilter): Promise<number> {
  const { requestId, label } = filter;
  const fits = and([
    ...inBook("asset", filter),
    ...(requestId === undefined ? [] : [expr`request_id = ${uuid(requestId)}`]),
    ...(label === undefined ? [] : [expr`label = ${label}`]),
  ]);
  const which = (at: Expr) => sql`maker_id = ${uuid(actor.userId)} AND expires_at > ${at}
    AND ${mayWrite(actor, at)} AND ${fits}`;
  const { groups } = await closeQuotes(env, { which });
  const cancelled = await countEnded(env.DB, "quotes", groups);
  const denied = cancelled === 0 ? await actorRejection(env.DB, actor) : undefined;
  if (denied !== undefined) throw new Problem(denied);
  return cancelled;
}
