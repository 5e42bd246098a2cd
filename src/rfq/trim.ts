/**
 * Cron: deletes requests and quotes that ended long ago. Matches and the journal stay permanently.
 */
import { NOW } from "../platform/commit.ts";
import { sql } from "../platform/sql.ts";
import { trimKeys } from "./idempotency.ts";
import { trimUntilDone } from "../platform/trim.ts";
import { KEPT } from "../platform/windows.ts";

/** How long ended requests and quotes can be read. No request lives longer than this. */
export const KEEP_ENDED_MS = 48 * 3_600_000;

export async function trimRfq(db: D1Database): Promise<void> {
  // Ids are UUID v7: their first six bytes are milliseconds, so the primary key is also the age.
  const oldId = sql`unhex(printf('%012x', ${NOW} - ${KEEP_ENDED_MS}) || '00000000000000000000')`;
  await trimUntilDone(
    db,
    (rows) => sql`DELETE FROM quotes WHERE quote_id IN (
    SELECT quote_id FROM quotes WHERE quote_id < ${oldId} AND status <> 'open' ORDER BY quote_id
      LIMIT ${rows}) RETURNING 1`,
  );
  await trimUntilDone(
    db,
    (rows) => sql`DELETE FROM requests WHERE request_id IN (
    SELECT r.request_id FROM requests r WHERE r.request_id < ${oldId} AND r.status <> 'open'
      AND NOT EXISTS (SELECT 1 FROM quotes q WHERE q.request_id = r.request_id)
        ORDER BY r.request_id LIMIT ${rows}) RETURNING 1`,
  );
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
  );
  await trimUntilDone(db, trimKeys);
}
