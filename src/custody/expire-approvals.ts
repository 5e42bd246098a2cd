/** Cron: cancels withdrawals that were not approved in time, and returns their amounts. */
import { commitOrThrow, type Group, newGroup } from "../platform/commit.ts";
import { all, raw, sql, uuid } from "../platform/sql.ts";
import { eventsToPush, type StreamEvent } from "../streams/event-log.ts";
import { notifyStreams } from "../streams/notify.ts";
import { announceWithdrawals } from "./announce.ts";
import { releaseCancelled } from "./cancel-withdrawal.ts";
import { FAILURE_MESSAGES } from "./records.ts";

const PER_GROUP = 100;
/** More wait for the next minute. */
const MAX_GROUPS = 20;

export async function expireApprovals(env: Env): Promise<void> {
  for (let count = 0; count < MAX_GROUPS; count++) {
    const group = newGroup();
    await commitOrThrow(env.DB, group, [
      sql`UPDATE withdrawals SET status = 'cancelled', failure_code = 'approval_expired',
          failure_message = ${FAILURE_MESSAGES.approval_expired}, updated_at = ${group.at},
          changed_group = ${group.seq}, ended_by = ${uuid(group.id)}
        WHERE withdrawal_id IN (
          SELECT w.withdrawal_id FROM withdrawals w INDEXED BY withdrawals_awaiting
          WHERE w.status = 'awaiting_approval' AND w.approval_expires_at <= ${group.at}
          ORDER BY w.approval_expires_at LIMIT ${raw(String(PER_GROUP))})`,
      releaseCancelled(group),
      ...announceWithdrawals(group),
    ]);
    const ended = await expiredBy(env.DB, group);
    if (ended > 0) await notifyStreams(env, await all<StreamEvent>(env.DB, eventsToPush(group)));
    if (ended < PER_GROUP) return;
  }
}

async function expiredBy(db: D1Database, group: Group): Promise<number> {
  const rows = await all(db, sql`SELECT 1 FROM withdrawals WHERE ended_by = ${uuid(group.id)}`);
  return rows.length;
}
