/** Runs once a minute and repeats work that a lost alarm, wake-up or notification did not start. */
import { wakeSealer, watchSealer } from "./archive/watch-sealer.ts";
import { trimApiKeys } from "./auth/api-key.ts";
import { anchorAudit } from "./auth/audit-anchor.ts";
import { deliverNotices } from "./auth/deliver-notices.ts";
import { trimTradedHours } from "./auth/exposure.ts";
import { trimLoginAttempts } from "./auth/login-throttle.ts";
import { trimTotp } from "./auth/remove-totp.ts";
import { trimTickets } from "./auth/ws-ticket.ts";
import { addressOf } from "./chain/addresses.ts";
import { trackedHoldings } from "./custody/tracked-holdings.ts";
import { expireApprovals } from "./custody/expire-approvals.ts";
import { alertLateWithdrawals } from "./custody/payer/alert-late.ts";
import { wakeChains } from "./custody/payer/wake-payer.ts";
import { reconcile } from "./ledger/reconcile.ts";
import { trimProposals } from "./operator/approvals.ts";
import { trimOrders } from "./operator/order.ts";
import { config } from "./platform/config.ts";
import { trimDailyCounts } from "./platform/daily-limit.ts";
import { errorFields, log } from "./platform/log.ts";
import { windowsOf } from "./platform/windows.ts";
import { watchSchema } from "./platform/watch-schema.ts";
import { watchStorage } from "./platform/storage.ts";
import { trimGroups } from "./platform/trim-groups.ts";
import { endLostSockets } from "./rfq/armed-sockets.ts";
import { closeMissedTimers } from "./rfq/cancel-after.ts";
import { expireMissed } from "./rfq/expire-missed.ts";
import { closeTripped } from "./rfq/protection.ts";
import { watchClock } from "./rfq/watch-clock.ts";
import { trimRfq } from "./rfq/trim.ts";
import { closeEndedSockets } from "./streams/close-ended.ts";
import { renotify } from "./streams/notify.ts";
import { trimStreams } from "./streams/trim.ts";

type Task = readonly [name: string, run: (env: Env) => Promise<unknown>];

const TASKS: readonly Task[] = [
  // Tasks that must run every minute come before tasks that may wait for a chain.
  ["renotify", renotify],
  ["close_ended_sockets", closeEndedSockets],
  ["end_lost_sockets", endLostSockets],
  ["expire_missed", expireMissed],
  ["close_missed_timers", closeMissedTimers],
  ["close_tripped", closeTripped],
  ["watch_clock", ({ DB }) => watchClock(DB)],
  ["wake_chains", wakeChains],
  ["expire_approvals", expireApprovals],
  ["alert_late", (env) => alertLateWithdrawals(env.DB, config(env))],
  ["anchor_audit", (env) => anchorAudit(env.DB, env.AUDIT, config(env))],
  ["deliver_notices", (env) => deliverNotices(env.DB, config(env))],
  ["reconcile", reconcileNow],
  ["wake_sealer", wakeSealer],
  ["watch_sealer", (env) => watchSealer(env.DB, config(env))],
  ["watch_storage", (env) => watchStorage(env.DB, config(env))],
  ["watch_schema", ({ DB }) => watchSchema(DB)],
  ["trim_tickets", ({ DB }) => trimTickets(DB)],
  ["trim_daily_counts", ({ DB }) => trimDailyCounts(DB)],
  ["trim_traded_hours", ({ DB }) => trimTradedHours(DB)],
  ["trim_api_keys", ({ DB }) => trimApiKeys(DB)],
  ["trim_login_attempts", ({ DB }) => trimLoginAttempts(DB)],
  ["trim_totp", ({ DB }) => trimTotp(DB)],
  ["trim_orders", ({ DB }) => trimOrders(DB)],
  ["trim_proposals", ({ DB }) => trimProposals(DB)],
  ["trim_streams", trimStreams],
  ["trim_rfq", ({ DB }) => trimRfq(DB)],
  ["trim_groups", (env) => trimGroups(env.DB, windowsOf(config(env)).commitGroups)],
];

function reconcileNow(env: Env): Promise<unknown> {
  const settings = config(env);
  return reconcile(env.DB, {
    chains: settings.CHAINS.map(({ chain }) => chain),
    macKeys: settings,
    addressOf: addressOf(settings),
    holdingsAt: trackedHoldings(env.DB, settings),
  });
}

const TASK_DEADLINE_MS = 25_000;

/**
 * Resolves at the deadline, so that a task that hangs, for example on a chain's node, does not
 * block the next one. The task continues in the background.
 */
async function deadlineOf(name: string): Promise<void> {
  await scheduler.wait(TASK_DEADLINE_MS);
  log("warn", "cron.late", { task: name });
}

/** Runs the tasks in sequence to limit the load on D1. A failed task does not stop the next one. */
export async function runCron(env: Env): Promise<void> {
  for (const [name, run] of TASKS) {
    try {
      await Promise.race([run(env), deadlineOf(name)]);
    } catch (error) {
      log("error", "cron.failed", { task: name, ...errorFields(error) });
    }
  }
}
