/**
 * The alert about D1's clock. It never goes back, so after a wrong instant in the future it stands
 * still until real time catches up. Quotes and accepts stop meanwhile (group-committer.ts).
 */
import { clearAlert, raiseAlert } from "../platform/alert.ts";
import { NOW } from "../platform/commit.ts";
import { scalar } from "../platform/sql.ts";
import { MAX_CLOCK_LEAD_MS, now } from "../platform/time.ts";

const SUBJECT = "d1";

export function alertClockAhead(db: D1Database, aheadMs: number): Promise<void> {
  const detail =
    `D1's clock is ${Math.round(aheadMs)} ms ahead of the Worker's. ` +
    "Quotes and accepts are rejected until the Worker's clock has caught up.";
  return raiseAlert(db, "clock_ahead", SUBJECT, detail);
}

/** Cron: raises the alert, or resolves it when the clocks agree again. */
export async function watchClock(db: D1Database): Promise<void> {
  const aheadMs = (await scalar<number>(db, NOW)) - now();
  if (aheadMs > MAX_CLOCK_LEAD_MS) await alertClockAhead(db, aheadMs);
  else await clearAlert(db, "clock_ahead", SUBJECT);
}
