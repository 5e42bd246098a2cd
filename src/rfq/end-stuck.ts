/** Ends a record that was set aside because it could not be ended (set-aside.ts). */
import { type Group, newGroup } from "../platform/commit.ts";
import { first, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { pushOrThrow } from "../streams/event-log.ts";
import { pusherOf } from "../streams/notify.ts";
import { announceRfq } from "./announce-rfq.ts";
import { endedAs, endedBy } from "./ended.ts";

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
    sql`UPDATE alerts SET resolved_at = ${group.at}
      WHERE kind = 'record_stuck' AND subject = ${id} AND resolved_at IS NULL AND ${ended}`,
    ...announceRfq(group),
    ...alongside(group, ended),
  ]);
  const row = await first<{ ended: number }>(env.DB, sql`SELECT ${ended} AS ended`);
  return row?.ended === 1;
}
