/** Ends a record that was set aside because it could not be ended (set-aside.ts). */
import { transfer } from "../ledger/post.ts";
import { stepCode } from "../ledger/codes.ts";
import { commitOrThrow, type Group, newGroup } from "../platform/commit.ts";
import { all, type Expr, first, type Sql, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { eventsToPush, type StreamEvent } from "../streams/event-log.ts";
import { notifyStreams } from "../streams/notify.ts";
import { announceRfq, NOTHING_MADE } from "./announce.ts";
import { endedAs, endedBy } from "./release.ts";

/**
 * Ends the quote or request with this id, and the open quotes on the request. It releases what the
 * journal still reserves for a quote, even if the quote says otherwise. Returns false if no record
 * with this id is set aside.
 * Throws if the journal cannot release it either.
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
  await commitOrThrow(env.DB, group, [
    sql`UPDATE quotes ${end}
      WHERE quote_id = ${uuid(id)} AND status = 'open' AND stuck_at IS NOT NULL`,
    sql`UPDATE requests ${end}
      WHERE request_id = ${uuid(id)} AND status = 'open' AND stuck_at IS NOT NULL`,
    // An ended request has no open quotes, except those that were set aside themselves.
    sql`UPDATE quotes SET status = ${endedAs("rejected", group)}, ended_by = ${uuid(operation)},
      ended_group = ${group.seq}
      WHERE status = 'open' AND stuck_at IS NULL AND request_id IN (SELECT request_id
        FROM requests WHERE ${which})`,
    transfer(group, {
      reason: "release",
      step: "end",
      from: "pending",
      to: "available",
      source: reservedInJournal(which),
    }),
    sql`UPDATE alerts SET resolved_at = ${group.at}
      WHERE kind = 'record_stuck' AND subject = ${id} AND resolved_at IS NULL AND ${ended}`,
    ...announceRfq(group, NOTHING_MADE),
    ...alongside(group, ended),
  ]);
  await notifyStreams(env, await all<StreamEvent>(env.DB, eventsToPush(group)));
  const row = await first<{ ended: number }>(env.DB, sql`SELECT ${ended} AS ended`);
  return row?.ended === 1;
}

/** What the journal has reserved and neither released nor traded, for the operation's quotes. */
function reservedInJournal(which: Expr): Sql {
  return sql`SELECT a.owner AS from_owner, a.owner AS to_owner, a.asset AS asset,
      t.amount AS amount, t.ref AS ref, 0 AS line
    FROM quotes q
      JOIN transfers t ON t.ref = q.quote_id AND t.step = ${stepCode("reserve")}
      JOIN accounts a ON a.account_id = t.to_account
    WHERE ${which} AND NOT EXISTS (SELECT 1 FROM transfers e
      WHERE e.ref = q.quote_id AND e.step = ${stepCode("end")})`;
}
