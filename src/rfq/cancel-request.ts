import { actorRejection, mayWrite } from "../auth/may-write.ts";
import { NOW } from "../platform/commit.ts";
import { first, readUuid, sql, uuid } from "../platform/sql.ts";
import { type Result, type CancelRequest, reject } from "./command.ts";
import { endedAs, releaseQuotesEndedBy } from "./release.ts";
import { hexId, type Operation } from "./operation.ts";

/** Cancels a request; its open quotes are rejected and released in the same operation. */
export function cancelRequest(command: CancelRequest): Operation {
  const { actor, operationId, requestId } = command;
  return {
    userId: actor.userId,
    statements: (group) => [
      sql`UPDATE requests SET status = 'cancelled', ended_by = ${uuid(operationId)}, ended_group = ${group.seq}
        WHERE request_id = ${uuid(requestId)} AND requester_id = ${uuid(actor.userId)} AND status = 'open' AND expires_at > ${group.at}
          AND ${mayWrite(actor, group.at)}`,
      sql`UPDATE quotes SET status = ${endedAs("rejected", group)}, ended_by = ${uuid(operationId)}, ended_group = ${group.seq}
        WHERE status = 'open' AND request_id = (SELECT request_id FROM requests WHERE ended_by = ${uuid(operationId)})`,
      releaseQuotesEndedBy(group, operationId),
    ],
    result: (effects) =>
      effects.endedBy.has(hexId(operationId))
        ? { ok: true, kind: "cancelled", id: requestId, replayed: false }
        : undefined,
    explain: (db) => explain(db, command),
  };
}

async function explain(
  db: D1Database,
  { actor, requestId }: CancelRequest,
): Promise<Result | undefined> {
  const denied = await actorRejection(db, actor);
  if (denied !== undefined) return { ok: false, problem: denied };
  const request = await first<{
    own: number;
    status: string;
    due: number;
    match_id: string | null;
  }>(
    db,
    sql`SELECT r.requester_id = ${uuid(actor.userId)} AS own, r.status, r.expires_at <= ${NOW} AS due,
      (SELECT hex(m.match_id) FROM matches m WHERE m.request_id = r.request_id) AS match_id
      FROM requests r WHERE r.request_id = ${uuid(requestId)}`,
  );
  if (request === undefined) return reject("request_unknown", `There is no request ${requestId}.`);
  if (request.own !== 1) return reject("not_request_owner", "The request belongs to someone else.");
  if (request.status === "cancelled")
    return { ok: true, kind: "cancelled", id: requestId, replayed: true };
  if (request.status === "expired" || (request.status === "open" && request.due === 1))
    return reject("request_expired", `Request ${requestId} has expired.`);
  if (request.status === "matched" && request.match_id !== null) {
    return reject("request_not_open", `Request ${requestId} is matched.`, {
      match_id: readUuid(request.match_id),
    });
  }
  return undefined;
}
