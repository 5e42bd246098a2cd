/**
 * Runs once a minute and repeats work that a lost alarm, wake-up or notification did not start.
 *
 * The scheduled handler runs anywhere, far from D1, and D1 limits the queries of one invocation. So
 * it only calls an object at D1's location, task by task: each call is an invocation of its own,
 * and a task that makes too many queries takes none from the others.
 */
import { DurableObject } from "cloudflare:workers";
import { wakeSealer, watchSealer } from "./archive/watch-sealer.ts";
import { trimApiKeys } from "./auth/api-key.ts";
import { anchorAudit } from "./audit/anchor.ts";
import { deliverNotices } from "./auth/deliver-notices.ts";
import { noticeKeys } from "./auth/notice-keys.ts";
import { trimTradedHours } from "./auth/exposure.ts";
import { trimLoginAttempts } from "./auth/login-throttle.ts";
import { trimTotp } from "./auth/remove-totp.ts";
import { trimTickets } from "./auth/ws-ticket.ts";
import { addressOf } from "./chain/addresses.ts";
import { trackedHoldings } from "./reconcile/tracked-holdings.ts";
import { expireApprovals } from "./custody/expire-approvals.ts";
import { alertLateWithdrawals } from "./custody/payer/alert-late.ts";
import { wakeChains } from "./custody/payer/wake-payer.ts";
import { heartbeat } from "./heartbeat.ts";
import { proveLiabilities } from "./reconcile/liabilities/prove-liabilities.ts";
import { checkRest, scanRecent } from "./reconcile/reconcile.ts";
import { deliverAlerts } from "./outbound/deliver-alerts.ts";
import { measure, type TaskEnds } from "./operator/measure.ts";
import { trimProposals } from "./operator/approvals.ts";
import { trimOrders } from "./operator/order.ts";
import { applyEmailChanges } from "./operator/users.ts";
import { config } from "./platform/config.ts";
import { counts } from "./platform/counts.ts";
import { trimDailyCounts } from "./platform/daily-limit.ts";
import { errorFields, log } from "./platform/log.ts";
import { near } from "./platform/near.ts";
import { limited } from "./platform/query-limit.ts";
import { now } from "./platform/time.ts";
import { windowsOf } from "./platform/windows.ts";
import { watchSchema } from "./platform/watch-schema.ts";
import { watchSwitches } from "./platform/kill-switches.ts";
import { watchStorage } from "./platform/storage.ts";
import { trimGroups } from "./platform/trim.ts";
import { endLostSockets } from "./rfq/cancel-on-disconnect.ts";
import { writeCandles } from "./rfq/candles/write-candles.ts";
import { tellHolders } from "./rfq/markets/tell-holders.ts";
import { payHolders } from "./rfq/pairs/pay-holders.ts";
import { readResults } from "./rfq/pairs/read-results.ts";
import { closeMissedTimers } from "./rfq/cancel-after.ts";
import { expireMissed } from "./rfq/expire.ts";
import { closeTripped } from "./rfq/protection.ts";
import { watchClock } from "./rfq/watch-clock.ts";
import { trimRfq } from "./rfq/trim-rfq.ts";
import { closeSocketsOfEndedCredentials } from "./streams/close-ended.ts";
import { pushNotices } from "./streams/notice.ts";
import { renotify } from "./streams/notify.ts";
import { trimStreams } from "./streams/trim-streams.ts";

/** A task that resolves to true has more to do, in another invocation. */
type Task = readonly [name: string, run: (env: Env, ended: TaskEnds) => Promise<unknown>];

export const TASKS: readonly Task[] = [
  // First what stops harm, and what must run every minute.
  ["watch_storage", (env) => watchStorage(env.DB, config(env))],
  ["watch_switches", ({ DB }) => watchSwitches(DB)],
  ["wake_sealer", wakeSealer],
  ["close_ended_sockets", (env) => closeSocketsOfEndedCredentials(env)],
  ["end_lost_sockets", endLostSockets],
  ["expire_missed", expireMissed],
  ["close_missed_timers", closeMissedTimers],
  ["close_tripped", closeTripped],
  ["watch_clock", ({ DB }) => watchClock(DB)],
  ["renotify", renotify],
  ["deliver_alerts", (env) => deliverAlerts(env.DB, config(env))],
  // Then what may wait for a chain, a bucket or a receiver.
  ["wake_chains", wakeChains],
  ["expire_approvals", expireApprovals],
  ["apply_email_changes", applyEmailChanges],
  ["notice_keys", noticeOfKeys],
  ["alert_late", (env) => alertLateWithdrawals(env.DB, config(env))],
  ["watch_schema", (env) => watchSchema(env.DB, config(env))],
  ["watch_sealer", (env) => watchSealer(env.DB, config(env))],
  ["anchor_audit", (env) => anchorAudit(env.DB, env.AUDIT, config(env))],
  ["deliver_notices", (env) => deliverNotices(env.DB, config(env))],
  ["measure", measure],
  ["tell_holders", tellHolders],
  ["read_results", readResults],
  ["pay_holders", (env) => payHolders(env)],
  ["write_candles", (env) => writeCandles(env.DB, config(env))],
  // At last what reads or deletes much.
  ["reconcile_recent", async (env) => !(await scanRecent(env.DB, { macKeys: config(env) }))],
  ["reconcile", reconcileNow],
  ["prove_liabilities", proveNow],
  ["trim_accounts", ({ DB }) => trimAccounts(DB)],
  ["trim_streams", trimStreams],
  ["trim_rfq", ({ DB }) => trimRfq(DB)],
  ["trim_groups", (env) => trimGroups(env.DB, windowsOf(config(env)).commitGroups)],
  // It says how the others went.
  ["heartbeat", (env, ended) => heartbeat(env, lateTasks(ended))],
];

/** Tasks of which no call has succeeded for some minutes. */
function lateTasks(ended: TaskEnds): string[] {
  return TASKS.flatMap(([name]) =>
    name !== "heartbeat" && (ended.get(name) ?? 0) < now() - TASK_LOST_MS ? [name] : [],
  );
}

function noticeOfKeys(env: Env): Promise<boolean> {
  return noticeKeys(env.DB, config(env), (userId) => pushNotices(env, userId));
}

function reconcileNow(env: Env): Promise<unknown> {
  const settings = config(env);
  return checkRest(env.DB, {
    chains: settings.CHAINS.map(({ chain }) => chain),
    macKeys: settings,
    addressOf: addressOf(settings),
    holdingsAt: trackedHoldings(env.DB, settings),
  });
}

function proveNow(env: Env): Promise<boolean> {
  const settings = config(env);
  return proveLiabilities(env, settings, trackedHoldings(env.DB, settings));
}

async function trimAccounts(db: D1Database): Promise<void> {
  await trimTickets(db);
  await trimDailyCounts(db);
  await trimTradedHours(db);
  await trimApiKeys(db);
  await trimLoginAttempts(db);
  await trimTotp(db);
  await trimOrders(db);
  await trimProposals(db);
}

const TASK_DEADLINE_MS = 25_000;
/** Invocations of a task that has more to do, in one minute. */
const MAX_CALLS = 20;
/** A task that has not ended after this time never will, for example after a lost response. */
const TASK_LOST_MS = 300_000;

/** The one object that runs the tasks. */
export class Cron extends DurableObject<Env> {
  readonly #runningSince = new Map<string, number>();
  /** When each task last succeeded, in Unix milliseconds. */
  readonly #ended = new Map<string, number>();

  /** Runs a task, unless its last call still runs. Resolves to whether it has more to do. */
  async run(name: string): Promise<boolean> {
    const task = TASKS.find(([known]) => known === name);
    if (task === undefined) throw new Error(`there is no task ${name}`);
    const since = this.#runningSince.get(name);
    const began = now();
    if (since !== undefined && began - since < TASK_LOST_MS) {
      log("warn", "cron.late", { task: name, since_ms: began - since });
      return false;
    }
    this.#runningSince.set(name, began);
    let outcome = "failed";
    try {
      const [, run] = task;
      const more = (await run(limited(this.env), this.#ended)) === true;
      this.#ended.set(name, now());
      outcome = "ok";
      return more;
    } finally {
      counts.count("rfq_cron_tasks_total", { verb: name, outcome });
      counts.send(this.env, (work) => this.ctx.waitUntil(work));
      if (this.#runningSince.get(name) === began) this.#runningSince.delete(name);
    }
  }
}

/** Runs the tasks in sequence to limit the load on D1. A failed task does not stop the next one. */
export async function runCron(env: Env): Promise<void> {
  for (const [name] of TASKS) {
    const until = now() + TASK_DEADLINE_MS;
    try {
      for (let call = 0; call < MAX_CALLS && now() < until; call++)
        if (!(await inTime(name, near(env, env.CRON, "cron").run(name)))) break;
    } catch (error) {
      log("error", "cron.failed", { task: name, ...errorFields(error) });
    }
  }
}

/** Resolves to false at the deadline, so that a task that hangs blocks no other. It continues. */
async function inTime(name: string, task: Promise<boolean>): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => {
      log("warn", "cron.late", { task: name });
      resolve(false);
    }, TASK_DEADLINE_MS);
  });
  try {
    return await Promise.race([task, late]);
  } finally {
    // A Worker may have 10 000 timers at a time.
    clearTimeout(timer);
  }
}
