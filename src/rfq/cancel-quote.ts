import { actorRejection, mayWrite } from "../auth/may-write.ts";
import { NOW } from "../platform/commit.ts";
import { first, readUuid, sql, uuid } from "../platform/sql.ts";
import { type Result, type CancelQuote, reject } from "./command.ts";
import { releaseQuotesEndedBy } from "./release.ts";
import { hexId, type Operation } from "./operation.ts";

export function cancelQuote(command: CancelQuote): Operation {
  const { actor, operationId, quoteId } = command;
  return {
    userId: actor.userId,
    statements: (group) => [
      sql`UPDATE quotes SET status = 'cancelled', ended_by = ${uuid(operationId)}, ended_group = ${group.seq}
        WHERE quote_id = ${uuid(quoteId)} AND maker_id = ${uuid(actor.userId)} AND status = 'open' AND expires_at > ${group.at}
          AND ${mayWrite(actor, group.at)}`,
      releaseQuotesEndedBy(group, operationId),
    ],
    result: (effects) =>
      effects.endedBy.has(hexId(operationId))
        ? { ok: true, kind: "cancelled", id: quoteId, replayed: false }
        : undefined,
    explain: (db) => explain(db, command),
  };
}

async function explain(
  db: D1Database,
  { actor, quoteId }: CancelQuote,
): Promise<Result | undefined> {
  const denied = await actorRejection(db, actor);
  if (denied !== undefined) return { ok: false, problem: denied };
  const quote = await first<{ own: number; status: string; due: number; match_id: string | null }>(
    db,
    sql`SELECT q.maker_id = ${uuid(actor.userId)} AS own, q.status, q.expires_at <= ${NOW} AS due,
      (SELECT hex(m.match_id) FROM matches m WHERE m.quote_id = q.quote_id) AS match_id
      FROM quotes q WHERE q.quote_id = ${uuid(quoteId)}`,
  );
  if (quote === undefined) return reject("quote_unknown", `There is no quote ${quoteId}.`);
  if (quote.own !== 1) return reject("not_quote_owner", "The quote belongs to someone else.");
  if (quote.status === "cancelled")
    return { ok: true, kind: "cancelled", id: quoteId, replayed: true };
  if (quote.status === "open" && quote.due === 0) return undefined;
  const status = quote.status === "open" ? "expired" : quote.status;
  return reject("quote_not_open", `Quote ${quoteId} is ${status}.`, {
    quote_status: status,
    ...(quote.match_id === null ? {} : { match_id: readUuid(quote.match_id) }),
  });
}
