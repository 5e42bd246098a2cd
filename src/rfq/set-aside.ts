/**
 * Records that cannot be ended, because the database refuses the statements that would end them. A
 * quote of which less is promised than it reserves is one. Each is set aside with `stuck_at` and an
 * alert, so that everything else goes on. The operator ends it with `stuck end` (`endStuck`).
 */
import { alertRow, closedAlert } from "../platform/alert.ts";
import { commitOrThrow, type Group, newGroup } from "../platform/commit.ts";
import { log } from "../platform/log.ts";
import { holds, raw, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { pushOrThrow } from "../streams/event-log.ts";
import { pusherOf } from "../streams/notify.ts";
import { announceRfq } from "./announce-rfq.ts";
import { endedAs, endedBy } from "./ended.ts";

/** Quotes or requests by id. */
export type Records = { readonly table: "quotes" | "requests"; readonly ids: readonly string[] };

/**
 * The ids with which `attempt` fails even alone. `attempt` returns whether its batch committed; the
 * batch must change nothing if it did not. Halving finds one culprit among n in about 2 log n.
 */
export async function findCulprits(
  ids: readonly string[],
  attempt: (ids: readonly string[]) => Promise<boolean>,
): Promise<string[]> {
  if (ids.length === 0 || (await attempt(ids))) return [];
  if (ids.length === 1) return [...ids];
  const middle = Math.ceil(ids.length / 2);
  return [
    ...(await findCulprits(ids.slice(0, middle), attempt)),
    ...(await findCulprits(ids.slice(middle), attempt)),
  ];
}

export async function setAside(db: D1Database, { table, ids }: Records): Promise<void> {
  const what = table === "quotes" ? "quote" : "request";
  for (const id of ids) {
    const group = newGroup();
    const detail = `The ${what} ${id} could not be ended and was set aside. \`stuck end --id ${id}\``;
    await commitOrThrow(db, group, [
      sql`UPDATE ${raw(table)} SET stuck_at = ${group.at}
        WHERE ${raw(`${what}_id`)} = ${uuid(id)} AND status = 'open' AND stuck_at IS NULL`,
      alertRow({ at: group.at }, "record_stuck", id, detail),
    ]);
    log("error", "alert.record_stuck", { subject: id, table });
  }
}

/**
 * Ends the quote or request with this id, and the open quotes on the request. What the maker
 * promises becomes what the other open quotes reserve (the trigger quotes_unpromise). Returns false
 * if no record with this id is set aside. Throws if the maker does not have that.
 */
export async function endStuck(
  env: Env,
  id: string,
  alongside: (group: Group, ended: Sql) => readonly Sql[],
): Promise<boolean> {
  const group = newGroup();
  const operation = uuidv7();
  const which = endedBy(group, operation);
  const ended = sql`EXISTS (SELECT 1 FROM quotes WHERE ${which}
    UNION ALL SELECT 1 FROM requests WHERE ${which})`;
  const end = sql`SET status = ${endedAs("cancelled", group)}, ended_by = ${uuid(operation)},
    ended_group = ${group.seq}`;
  await pushOrThrow(pusherOf(env), group, [
    sql`UPDATE quotes ${end}
      WHERE quote_id = ${uuid(id)} AND status = 'open' AND stuck_at IS NOT NULL`,
    sql`UPDATE requests ${end}
      WHERE request_id = ${uuid(id)} AND status = 'open' AND stuck_at IS NOT NULL`,
    // An ended request has no open quotes, except those that were set aside themselves. One of them
    // may be what could not be ended, so they end like those (quotes_unpromise).
    sql`UPDATE quotes SET stuck_at = ${group.at} WHERE status = 'open' AND stuck_at IS NULL
      AND request_id IN (SELECT request_id FROM requests WHERE ${which})`,
    sql`UPDATE quotes SET status = ${endedAs("rejected", group)}, ended_by = ${uuid(operation)},
        ended_group = ${group.seq}, stuck_at = NULL
      WHERE status = 'open' AND stuck_at = ${group.at} AND request_id IN (SELECT request_id
        FROM requests WHERE ${which})`,
    closedAlert(group, "record_stuck", id, ended),
    ...announceRfq(group),
    ...alongside(group, ended),
  ]);
  return holds(env.DB, ended);
}
