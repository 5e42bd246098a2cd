import { mayWrite, actorRejection } from "../auth/may-write.ts";
import { readAssetKey } from "../assets/asset.ts";
import type { Config } from "../platform/config.ts";
import { STORAGE_LEFT } from "../platform/storage.ts";
import { first, type Sql, sql, uuid } from "../platform/sql.ts";
import { type Result, type OpenRequest, reject } from "./command.ts";
import { keyIsFree, recallResult, rememberResult } from "./idempotency.ts";
import { jsonObject, newRequestColumns, reader } from "./records.ts";
import { hexId, type Operation } from "./operation.ts";

const ROUTE = "POST /rfq/request";

/** Opens a request. Nothing is set aside: the requester's funds are taken at the accept. */
export function openRequest(command: OpenRequest, settings: Config): Operation {
  const { actor, requestId, asset } = command;
  const venue = readAssetKey(asset)?.venue ?? "";
  return {
    userId: actor.userId,
    statements: (group) => [
      sql`INSERT INTO requests (request_id, requester_id, asset, amount, side, disclosed, status, opened_at, expires_at, opened_group)
        SELECT ${uuid(requestId)}, ${uuid(actor.userId)}, ${asset}, ${command.amount}, ${command.side}, ${command.disclosed},
          'open', ${group.at}, ${group.at} + ${command.expiresInSecs * 1_000}, ${group.seq}
        WHERE ${mayWrite(actor, group.at)}
          AND ${STORAGE_LEFT}
          AND NOT EXISTS (SELECT 1 FROM paused_venues WHERE venue = ${venue})
          AND ${openRequestsOf(actor.userId, group.at)} < ${settings.RFQ_OPEN_REQUESTS_PER_USER}
          AND NOT EXISTS (SELECT 1 FROM requests WHERE request_id = ${uuid(requestId)})
          AND ${keyIsFree(actor.userId, ROUTE, command.idempotency, group.at)}`,
      ...rememberResult({
        group,
        userId: actor.userId,
        route: ROUTE,
        idempotency: command.idempotency,
        result: sql`SELECT ${jsonObject(newRequestColumns(reader(actor.userId)))} AS result FROM requests r WHERE r.request_id = ${uuid(requestId)}`,
      }),
    ],
    result: (effects) => {
      const row = effects.requests.get(hexId(requestId));
      return row === undefined ? undefined : { ok: true, kind: "request", row, replayed: false };
    },
    explain: (db) => explain(db, command, venue, settings),
  };
}

async function explain(
  db: D1Database,
  command: OpenRequest,
  venue: string,
  settings: Config,
): Promise<Result | undefined> {
  const { actor } = command;
  const denied = await actorRejection(db, actor);
  if (denied !== undefined) return { ok: false, problem: denied };
  const recalled = await recallResult(db, {
    userId: actor.userId,
    route: ROUTE,
    kind: "request",
    idempotency: command.idempotency,
  });
  if (recalled !== undefined) return recalled;
  const status = await first<{ paused: number; open: number }>(
    db,
    sql`SELECT EXISTS (SELECT 1 FROM paused_venues WHERE venue = ${venue}) AS paused, ${openRequestsOf(actor.userId, sql`0`)} AS open`,
  );
  if (status?.paused === 1) return reject("venue_paused", `${venue} is paused.`);
  if ((status?.open ?? 0) >= settings.RFQ_OPEN_REQUESTS_PER_USER) {
    return reject(
      "open_request_limit",
      `You have ${settings.RFQ_OPEN_REQUESTS_PER_USER} open requests, which is the limit.`,
    );
  }
  return undefined;
}

function openRequestsOf(userId: string, at: Sql): Sql {
  return sql`(SELECT count(*) FROM requests WHERE requester_id = ${uuid(userId)} AND status = 'open' AND expires_at > ${at})`;
}
