/** Cron: what ended long ago goes. Matches and the journal stay for ever. */
import { NOW } from "../platform/commit.ts";
import { all, sql } from "../platform/sql.ts";

/** Ended requests and quotes can be read for this long. */
const KEEP_ENDED_MS = 7 * 24 * 3_600_000;
const KEEP_KEYS_MS = 24 * 3_600_000;
const ROWS_PER_RUN = 2_000;

export async function trimRfq(db: D1Database): Promise<void> {
  // Ids are UUID v7: their first six bytes are milliseconds, so the primary key is also the age.
  const oldId = sql`unhex(printf('%012x', ${NOW} - ${KEEP_ENDED_MS}) || '00000000000000000000')`;
  await all(db, sql`DELETE FROM quotes WHERE quote_id IN (SELECT quote_id FROM quotes WHERE quote_id < ${oldId} AND state <> 'open' LIMIT ${ROWS_PER_RUN})`);
  await all(
    db,
    sql`DELETE FROM requests WHERE request_id IN (SELECT r.request_id FROM requests r WHERE r.request_id < ${oldId} AND r.state <> 'open'
      AND NOT EXISTS (SELECT 1 FROM quotes q WHERE q.request_id = r.request_id) LIMIT ${ROWS_PER_RUN})`,
  );
  await all(
    db,
    sql`DELETE FROM idempotency_keys WHERE rowid IN (SELECT rowid FROM idempotency_keys WHERE at <= ${NOW} - ${KEEP_KEYS_MS} LIMIT ${ROWS_PER_RUN})`,
  );
}
