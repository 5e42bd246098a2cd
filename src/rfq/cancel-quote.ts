import { NOW } from "../platform/commit.ts";
import { guardOf, type Precondition, questionOf } from "../platform/preconditions.ts";
import { type Expr, expr, sql, uuid } from "../platform/sql.ts";
import { type CancelQuote, reject, type Result } from "./command.ts";
import { hexId, type Operation } from "./operation.ts";
import type { QuoteStatus } from "./tables.ts";
import { releaseQuotesEndedBy } from "./release.ts";
import { actorFacts, type ActorFacts } from "../auth/may-write.ts";
import { actorMayWrite, cancelled, quoteNotOpen } from "./rejections.ts";

export function cancelQuote(command: CancelQuote): Operation {
  const { actor, operationId, quoteId } = command;
  return {
    userId: actor.userId,
    receivedAt: command.receivedAt,
    names: [quoteId],
    statements: (group) => [
      sql`UPDATE quotes SET status = 'cancelled', ended_by = ${uuid(operationId)},
        ended_group = ${group.seq}
        WHERE quote_id = ${uuid(quoteId)} AND ${guardOf(preconditions(command, group.at))}`,
      releaseQuotesEndedBy(group, operationId),
    ],
    result: (effects) =>
      effects.endedBy.has(hexId(operationId)) ? cancelled(quoteId, { replayed: false }) : undefined,
    rejection: () =>
      questionOf({
        preconditions: preconditions(command, NOW),
        facts: {
          status: expr`iif(quotes.status = 'open'
            AND quotes.expires_at <= ${NOW}, 'expired', quotes.status)`,
          match_id: expr`SELECT hex(m.match_id) FROM matches m WHERE m.quote_id = quotes.quote_id`,
        },
        apart: actorFacts(actor),
        from: sql`FROM quotes WHERE quotes.quote_id = ${uuid(quoteId)}`,
        missing: () => reject("quote_unknown", `There is no quote ${quoteId}.`),
      }),
  };
}

type Facts = { readonly status: QuoteStatus; readonly match_id: string | null };

/** Over `quotes`. */
function preconditions(
  { actor, quoteId }: CancelQuote,
  at: Expr,
): readonly Precondition<Facts & ActorFacts, Result>[] {
  return [
    actorMayWrite(actor, at),
    {
      expr: expr`quotes.maker_id = ${uuid(actor.userId)}`,
      reject: () => reject("not_quote_owner", "The quote belongs to someone else."),
    },
    {
      expr: expr`quotes.status <> 'cancelled'`,
      reject: () => cancelled(quoteId, { replayed: true }),
    },
    {
      expr: expr`quotes.status = 'open' AND quotes.expires_at > ${at}`,
      reject: ({ status, match_id }) => quoteNotOpen(quoteId, status, match_id),
    },
  ];
}
