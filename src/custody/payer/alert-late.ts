/** Reports withdrawals that take too long. It reads only the database, so no cause prevents it. */
import { IN_FLIGHT } from "../../assets/withdrawal-status.ts";
import { alertWhile, raiseAlert } from "../../platform/alert.ts";
import { NOW } from "../../platform/commit.ts";
import type { Config } from "../../platform/config.ts";
import { all, first, listed, readUuid, sql } from "../../platform/sql.ts";
import { toWireTime } from "../../platform/time.ts";

/** A transaction is mined in seconds. The payer raises its fee long before. */
const UNMINED_AFTER_MS = 600_000;
/** Only a parked withdrawal waits this long (park-withdrawal.ts). */
const PARKED_FOR_MS = 86_400_000;

/** Cron task. A frozen user's withdrawals wait on purpose. A parked one has an alert of its own. */
export async function alertLateWithdrawals(
  db: D1Database,
  settings: Pick<Config, "CHAINS">,
): Promise<void> {
  await alertRemovedChains(db, settings);
  for (const { chain, late_after_secs } of settings.CHAINS) {
    const late = await first<{ n: number; oldest: string; since: number }>(
      db,
      // SQLite returns the row of the minimum for a min().
      sql`SELECT count(*) AS n, hex(w.withdrawal_id) AS oldest, min(w.created_at) AS since
        FROM withdrawals w INDEXED BY withdrawals_open
        WHERE w.chain = ${chain} AND w.status ${IN_FLIGHT}
          AND w.created_at < ${NOW} - ${late_after_secs * 1_000}
          AND (w.status = 'submitted' OR (
            coalesce(w.not_before, 0) < ${NOW} + ${PARKED_FOR_MS}
            AND NOT EXISTS (SELECT 1 FROM users u
              WHERE u.user_id = w.user_id AND u.frozen_at IS NOT NULL)))`,
    );
    const detail =
      late !== undefined && late.n > 0
        ? `${late.n} withdrawals are late, the oldest is ${readUuid(late.oldest)} of ` +
          `${toWireTime(late.since)}: operator chain status`
        : undefined;
    await alertWhile(db, "withdrawal_late", chain, detail);
    await alertUnmined(db, chain);
  }
}

/** The oldest transaction that is signed and not mined holds up all that have later nonces. */
async function alertUnmined(db: D1Database, chain: string): Promise<void> {
  const oldest = await first<{ nonce: number; kind: string; made_at: number; attempts: number }>(
    db,
    sql`SELECT t.nonce, t.kind, t.made_at, (SELECT count(*) FROM transaction_attempts a
          WHERE a.transaction_id = t.transaction_id) AS attempts
      FROM chain_transactions t WHERE t.chain = ${chain} AND t.status = 'open'
        AND t.made_at < ${NOW} - ${UNMINED_AFTER_MS} ORDER BY t.nonce LIMIT 1`,
  );
  const detail =
    oldest &&
    `transaction ${oldest.nonce} (${oldest.kind}) of ${toWireTime(oldest.made_at)} is not mined ` +
      `after ${oldest.attempts} fees: operator chain status`;
  await alertWhile(db, "payment_unmined", chain, detail);
}

/**
 * A chain that was removed from the settings has no payer, so its withdrawals neither settle nor
 * fail. Its watcher is needed too, because a payment may have been sent.
 */
async function alertRemovedChains(db: D1Database, settings: Pick<Config, "CHAINS">): Promise<void> {
  const served = listed(settings.CHAINS.map(({ chain }) => chain));
  const removed = await all<{ chain: string; n: number; oldest: string; since: number }>(
    db,
    sql`SELECT w.chain, count(*) AS n, hex(w.withdrawal_id) AS oldest, min(w.created_at) AS since
      FROM withdrawals w INDEXED BY withdrawals_open
      WHERE w.status ${IN_FLIGHT}
        AND w.chain NOT IN (${served})
      GROUP BY w.chain`,
  );
  for (const { chain, n, oldest, since } of removed) {
    const detail =
      `${n} withdrawals wait, the oldest is ${readUuid(oldest)} of ${toWireTime(since)}: ` +
      `put ${chain} back into CHAINS and deploy`;
    await raiseAlert(db, "chain_removed", chain, detail);
  }
  const waiting = listed(removed.map(({ chain }) => chain));
  await all(
    db,
    sql`UPDATE alerts SET resolved_at = ${NOW} WHERE kind = 'chain_removed'
      AND resolved_at IS NULL AND subject NOT IN (${waiting})`,
  );
}
