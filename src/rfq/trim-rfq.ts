/**
 * Cron: deletes protection counts, standing accepts of sealed requests, old redemptions, candles.
 * Records leave with their seals (release.ts).
 */
import { NOW } from "../platform/commit.ts";
import { expr, literal, sql } from "../platform/sql.ts";
import { trimUntilDone } from "../platform/trim.ts";
import { idsFrom } from "../platform/uuid.ts";
import { KEPT } from "../platform/windows.ts";
import { CANDLE_TRIMS } from "./candles/write-candles.ts";

export async function trimRfq(db: D1Database): Promise<void> {
  await trimUntilDone(
    db,
    (rows) => sql`DELETE FROM protection_counts WHERE (user_id, period, at, matches_before) IN (
    SELECT c.user_id, c.period, c.at, c.matches_before
    FROM protections p CROSS JOIN protection_counts c
      ON c.user_id = p.user_id AND c.period < p.period
    UNION ALL
    SELECT c.user_id, c.period, c.at, c.matches_before
    FROM protections p CROSS JOIN protection_counts c
      ON c.user_id = p.user_id AND c.period = p.period AND c.at <= ${NOW} - ${KEPT.protectionCounts}
    LIMIT ${rows}) RETURNING 1`,
    // Until then a row says what a group whose response was lost has done.
    (rows) => sql`DELETE FROM standing_accepts WHERE request_id IN (
      SELECT a.request_id FROM standing_accepts a INDEXED BY standing_accepts_over
      WHERE a.price IS NULL AND NOT EXISTS (
        SELECT 1 FROM requests r WHERE r.request_id = a.request_id)
      LIMIT ${rows}) RETURNING 1`,
    // In the order of their ids, which is that of their instants.
    (rows) => sql`DELETE FROM redemptions WHERE redemption_id IN (
      SELECT r.redemption_id FROM redemptions r
      WHERE r.redemption_id < ${idsFrom(expr`${NOW} - ${literal(KEPT.redemptions)}`)}
        AND NOT EXISTS (SELECT 1 FROM transfers t WHERE t.ref = r.redemption_id)
      ORDER BY r.redemption_id LIMIT ${rows}) RETURNING 1`,
    ...CANDLE_TRIMS,
  );
}
