import { NOW } from "../platform/commit.ts";
import { guardOf, type Precondition, questionOf } from "../platform/preconditions.ts";
import { type Expr, expr, sql, uuid } from "../platform/sql.ts";
import { type CancelRequest, reject, type Result } from "./command.ts";
import { hexId, type BookOperation } from "./book-operation.ts";
import { endedAs, endedBy } from "./ended.ts";
import { actorFacts, type ActorFacts } from "../auth/may-write.ts";
import { actorMayWrite, cancelled, requestMatched } from "./rejections.ts";

/** Cancels a request. Its open quotes are rejected in the same operation. */
export function cancelRequest(command: CancelRequest): BookOperation {
  const { actor, operationId, requestId } = command;
  return {
    userId: actor.userId,
    receivedAt: command.receivedAt,
    makes: null,
    names: [requestId],
    statements: (group) => [
      sql`UPDATE requests SET status = 'cancelled', ended_by = ${uuid(operationId)},
        ended_group = ${group.seq}
        WHERE request_id = ${uuid(requestId)} AND ${guardOf(preconditions(command, group.at))}`,
      sql`UPDATE quotes SET status = ${endedAs("rejected", group)}, ended_by = ${uuid(operationId)},
          ended_group = ${group.seq}
        WHERE status = 'open' AND stuck_at IS NULL
          AND request_id = (SELECT request_id FROM requests WHERE ${endedBy(group, operationId)})`,
    ],
    result: (effects) =>
      effects.endedBy.has(hexId(operationId))
        ? cancelled(requestId, { replayed: false })
        : undefined,
    rejection: () =>
      questionOf({
        preconditions: preconditions(command, NOW),
        facts: {
          match_id: expr`SELECT hex(m.match_id) FROM matches m
            WHERE m.request_id = requests.request_id`,
        },
        apart: actorFacts(actor),
        from: sql`FROM requests WHERE requests.request_id = ${uuid(requestId)}`,
        missing: () => reject("request_unknown", `There is no request ${requestId}.`),
      }),
  };
}

type Facts = { readonly match_id: string | null };

/** Over `requests`. */
function preconditions(
  { actor, requestId }: CancelRequest,
  at: Expr,
): readonly Precondition<Facts & ActorFacts, Result>[] {
  return [
    actorMayWrite(actor, at),
    {
      expr: expr`requests.requester_id = ${uuid(actor.userId)}`,
      reject: () => reject("not_request_owner", "The request belongs to someone else."),
    },
    {
      expr: expr`requests.status <> 'cancelled'`,
      reject: () => cancelled(requestId, { replayed: true }),
    },
    {
      expr: expr`requests.status <> 'matched'`,
      reject: ({ match_id }) => requestMatched(requestId, match_id),
    },
    {
      expr: expr`requests.status = 'open' AND requests.expires_at > ${at}`,
      reject: () => reject("request_expired", `Request ${requestId} has expired.`),
    },
  ];
}
