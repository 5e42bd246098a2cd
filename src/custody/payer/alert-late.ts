/**
 * Reports withdrawals that take too long. The alert does not depend on the reason, because cron
 * raises it from the database alone.
 */
import { clearAlert, raiseAlert } from "../../platform/alert.ts";
import { NOW } from "../../platform/commit.ts";
import type { Config } from "../../platform/config.ts";
import { first, readUuid, sql } from "../../platform/sql.ts";
import { toWireTime } from "../../platform/time.ts";

/** Only a parked withdrawal waits this long (park-over-limit.ts). */
const PARKED_FOR_MS = 86_400_000;

/**
 * Cron task. A frozen user's queued withdrawals wait on purpose and are not late. A parked one has
 * an alert of its own.
 */
export async function alertLateWithdrawals(
  db: D1Database,
  settings: Pick<Config, "CHAINS">,
): Promise<void> {
  for (const { chain, late_after_secs } of settings.CHAINS) {
    const late = await first<{ n: number; oldest: string; since: number }>(
      db,
      // Of the rows of a min(), SQLite returns the one with the minimum.
      sql`SELECT count(*) AS n, hex(w.withdrawal_id) AS oldest, min(w.created_at) AS since
        FROM withdrawals w INDEXED BY withdrawals_open
        WHERE w.chain = ${chain} AND w.status IN ('queued', 'submitted')
          AND w.created_at < ${NOW} - ${late_after_secs * 1_000}
          AND (w.status = 'submitted' OR (
            coalesce(w.not_before, 0) < ${NOW} + ${PARKED_FOR_MS}
            AND NOT EXISTS (SELECT 1 FROM users u
              WHERE u.user_id = w.user_id AND u.frozen_at IS NOT NULL)))`,
    );
    if (late === undefined || late.n === 0) await clearAlert(db, "withdrawal_late", chain);
    else {
      const oldest = `${readUuid(late.oldest)} of ${toWireTime(late.since)}`;
      const detail = `${late.n} withdrawals are late, the oldest is ${oldest}: operator chain status`;
      await raiseAlert(db, "withdrawal_late", chain, detail);
    }
  }
}
