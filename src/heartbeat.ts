/**
 * Calls HEARTBEAT_URL while the service is well: a dead man's switch, because a service that has
 * stopped raises no alert. The receiver calls somebody when no call has come for some minutes.
 */
import { postOnce } from "./outbound/post-once.ts";
import { STOPPING_ALERTS } from "./platform/alert-kinds.ts";
import { NOW } from "./platform/commit.ts";
import { type Config, config } from "./platform/config.ts";
import { log } from "./platform/log.ts";
import { all, listed, sql } from "./platform/sql.ts";

/** A watcher moves with each block, and the reconciliation reads what is new every minute. */
const LATE_MS = 300_000;

/** The last task of cron. `late`: tasks that have not succeeded for some minutes. */
export async function heartbeat(env: Env, late: readonly string[]): Promise<void> {
  const settings = config(env);
  if (settings.HEARTBEAT_URL === "") return;
  const reasons = [...late.map((task) => `cron: ${task}`), ...(await unwell(env.DB, settings))];
  if (reasons.length > 0) return log("warn", "heartbeat_withheld", { reasons: reasons.join(", ") });
  await postOnce({
    to: "HEARTBEAT_URL",
    url: settings.HEARTBEAT_URL,
    headers: {},
    body: JSON.stringify({ deployment: settings.DEPLOYMENT }),
  });
}

/** Open alerts, chains that did not move on, and recent scans (reconcile.ts) that are late. */
async function unwell(db: D1Database, { CHAINS }: Config): Promise<string[]> {
  const chains = JSON.stringify(CHAINS.map(({ chain }) => chain));
  const rows = await all<{ reason: string }>(
    db,
    sql`SELECT 'alert: ' || kind AS reason FROM alerts WHERE resolved_at IS NULL
        AND kind IN (${listed(STOPPING_ALERTS)})
      GROUP BY kind
      UNION ALL
      SELECT 'chain: ' || j.value FROM json_each(${chains}) j
      WHERE NOT EXISTS (SELECT 1 FROM chain_cursors c
        WHERE c.chain = j.value AND c.moved_at > ${NOW} - ${LATE_MS})
      UNION ALL
      SELECT 'reconciliation' FROM json_each('["transfers", "groups"]') s
      WHERE NOT EXISTS (SELECT 1 FROM ledger_checkpoints l
        WHERE l.scan = s.value AND l.finished_at > ${NOW} - ${LATE_MS})
      GROUP BY 1`,
  );
  return rows.map(({ reason }) => reason);
}
