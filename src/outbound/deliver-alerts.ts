/** Delivers alerts to ALERT_URL as they are raised and resolved, in that order. */
import type { Config } from "../platform/config.ts";
import { all, sql } from "../platform/sql.ts";
import { now } from "../platform/time.ts";
import { alertBody, type AlertEvent } from "./alert-body.ts";
import { deliverLog, type LogPage } from "./deliver-log.ts";

const PAGE = 50;

/** Cron task. Without ALERT_URL it does nothing. A new receiver first gets what is still open. */
export function deliverAlerts(db: D1Database, settings: Config): Promise<boolean> {
  return deliverLog(db, {
    name: "alerts",
    url: settings.ALERT_URL,
    start: sql`SELECT coalesce(
      (SELECT min(e.event_id) - 1 FROM alerts a JOIN alert_events e ON e.alert_id = a.alert_id
        WHERE a.resolved_at IS NULL),
      (SELECT max(event_id) FROM alert_events), 0)`,
    read: (after) => readPage(db, settings, after),
    late: "alerts_late",
  });
}

/** D1 commits in turn, so no event appears below the cursor later. */
async function readPage(db: D1Database, settings: Config, after: number): Promise<LogPage> {
  const rows = await all<Omit<AlertEvent, "resolved"> & { resolved: number }>(
    db,
    sql`SELECT e.event_id, e.resolved, a.kind, a.subject, a.detail, a.at, a.resolved_at
      FROM alert_events e CROSS JOIN alerts a ON a.alert_id = e.alert_id
      WHERE e.event_id > ${after} ORDER BY e.event_id LIMIT ${PAGE}`,
  );
  return {
    messages: rows.map((row) => {
      const sent = alertBody(settings, { ...row, resolved: row.resolved === 1 }, now());
      return {
        position: row.event_id,
        post: { to: "ALERT_URL", url: settings.ALERT_URL, ...sent },
      };
    }),
    through: rows.at(-1)?.event_id ?? after,
    more: rows.length === PAGE,
  };
}
