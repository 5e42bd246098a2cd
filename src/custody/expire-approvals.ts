/**
 * Cron: cancels withdrawals that were not approved in time, except while the payer is halted, as
 * the vault may have paid them before a restore, or after a void was signed, whose outcome decides.
 */
import { newGroup, NOW } from "../platform/commit.ts";
import { queriesLeft } from "../platform/query-limit.ts";
import { atom, type Expr, expr, first, raw, scalar, type Sql, sql, uuid } from "../platform/sql.ts";
import { pushOrThrow } from "../streams/event-log.ts";
import { pusherOf } from "../streams/notify.ts";
import { announceWithdrawals } from "./custody-events.ts";
import { isHalted } from "./payer/payer-lease.ts";
import { releaseEnded } from "./withdrawal-transfers.ts";
import { FAILURE_MESSAGES } from "./payment-records.ts";

const PER_GROUP = 100;
/** Of a group, with the look for a lost response. */
const QUERIES_PER_GROUP = 40;
/** More wait for the next minute. */
const MAX_GROUPS = 20;

/** Returns whether more is due. */
export async function expireApprovals(env: Env): Promise<boolean> {
  // An idle minute must write no group, which the reconciliation would read.
  if ((await first(env.DB, sql`SELECT 1 ${due(NOW)} LIMIT 1`)) === undefined) return false;
  for (let count = 0; count < MAX_GROUPS; count++) {
    const group = newGroup();
    await pushOrThrow(pusherOf(env), group, [
      sql`UPDATE withdrawals SET status = 'cancelled', failure_code = 'approval_expired',
          failure_message = ${FAILURE_MESSAGES.approval_expired}, updated_at = ${group.at},
          changed_group = ${group.seq}, ended_by = ${uuid(group.id)}
        WHERE withdrawal_id IN (
          SELECT w.withdrawal_id ${due(group.at)}
          ORDER BY w.approval_expires_at LIMIT ${raw(String(PER_GROUP))})`,
      releaseEnded(group, "cancelled"),
      ...announceWithdrawals(group),
    ]);
    const ended = expr`SELECT count(*) FROM withdrawals WHERE ended_by = ${uuid(group.id)}`;
    if ((await scalar<number>(env.DB, ended)) < PER_GROUP) return false;
    if (queriesLeft(env.DB) < QUERIES_PER_GROUP) return true;
  }
  return true;
}

function due(at: Expr): Sql {
  return sql`FROM withdrawals w INDEXED BY withdrawals_awaiting
    WHERE w.status = 'awaiting_approval' AND w.approval_expires_at <= ${at}
      AND NOT ${isHalted(atom("w.chain"))}
      AND NOT EXISTS (SELECT 1 FROM batch_members m WHERE m.withdrawal_id = w.withdrawal_id)`;
}
