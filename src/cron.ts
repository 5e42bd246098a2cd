/** The safety net, once a minute: whatever an alarm, a queue or a hint should have done and did not. */
import { sealAudit } from "./auth/audit-seal.ts";
import { trimLoginAttempts } from "./auth/login-throttle.ts";
import { trimTickets } from "./auth/ws-ticket.ts";
import { trackedHoldings } from "./custody/tracked-holdings.ts";
import { wakeChains } from "./custody/withdrawal-doorbell.ts";
import { reconcile } from "./ledger/reconcile.ts";
import { config } from "./platform/config.ts";
import { errorFields, log } from "./platform/log.ts";
import { watchStorage } from "./platform/storage.ts";
import { trimGroups } from "./platform/trim-groups.ts";
import { expireMissed } from "./rfq/expire-missed.ts";
import { trimRfq } from "./rfq/trim.ts";
import { closeEndedSockets } from "./streams/close-ended.ts";
import { hintAgain } from "./streams/hints.ts";
import { trimStreams } from "./streams/trim.ts";

type Task = readonly [name: string, run: (env: Env) => Promise<unknown>];

const TASKS: readonly Task[] = [
  ["wake_chains", wakeChains],
  ["expire_missed", expireMissed],
  ["hint_again", hintAgain],
  ["close_ended_sockets", closeEndedSockets],
  ["seal_audit", ({ DB }) => sealAudit(DB)],
  ["reconcile", reconcileNow],
  ["watch_storage", ({ DB }) => watchStorage(DB)],
  ["trim_tickets", ({ DB }) => trimTickets(DB)],
  ["trim_login_attempts", ({ DB }) => trimLoginAttempts(DB)],
  ["trim_streams", ({ DB }) => trimStreams(DB)],
  ["trim_rfq", ({ DB }) => trimRfq(DB)],
  ["trim_groups", ({ DB }) => trimGroups(DB)],
];

function reconcileNow(env: Env): Promise<unknown> {
  const settings = config(env);
  return reconcile(env.DB, { chains: settings.CHAINS.map(({ chain }) => chain), holdingsAt: trackedHoldings(env.DB, settings) });
}

/** One after the other, so that they do not crowd D1; one's failure stops none of the others. */
export async function runCron(env: Env): Promise<void> {
  for (const [name, run] of TASKS) {
    try {
      await run(env);
    } catch (error) {
      log("error", "cron.failed", { task: name, ...errorFields(error) });
    }
  }
}
