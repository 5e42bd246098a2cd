/** Brakes of a whole component, which operators or the service itself put on. */
import type { AlertKind } from "./alert-kinds.ts";
import { raiseAlert } from "./alert.ts";
import { NOW } from "./commit.ts";
import { all, listed, sql } from "./sql.ts";

/** Names in `kill_switches`, each with the alert of its name. */
export const KILL_SWITCHES = [
  "storage_full",
  "withdrawals_paused",
] as const satisfies readonly AlertKind[];
const ALERTS_OF_SWITCHES: readonly AlertKind[] = [...KILL_SWITCHES, "venue_paused"];

type On = { readonly kind: AlertKind; readonly subject: string; readonly detail: string };

/** Cron task: an alert is open about each switch that is on. */
export async function watchSwitches(db: D1Database): Promise<void> {
  const on = await all<On>(
    db,
    sql`SELECT name AS kind, 'service' AS subject, reason AS detail FROM kill_switches
      UNION ALL SELECT 'venue_paused', venue, 'An operator paused it.' FROM paused_venues`,
  );
  for (const { kind, subject, detail } of on) await raiseAlert(db, kind, subject, detail);
  await all(
    db,
    sql`UPDATE alerts SET resolved_at = ${NOW}
      WHERE resolved_at IS NULL AND kind IN (${listed(ALERTS_OF_SWITCHES)}) AND NOT EXISTS (
        SELECT 1 FROM json_each(${JSON.stringify(on)}) o
        WHERE o.value ->> 'kind' = alerts.kind AND o.value ->> 'subject' = alerts.subject)`,
  );
}
