/** Cron: deletes events older than a day, except the last thousand of each stream. */
import { commit, newGroup, NOW } from "../platform/commit.ts";
import { all, sql } from "../platform/sql.ts";

const KEEP_MS = 24 * 3_600_000;
/**
 * The partial index `streams_long`, which finds the streams that have more, contains the same
 * number.
 */
const KEEP_EVENTS = 1_000;
const STREAMS_PER_RUN = 100;
const EVENTS_PER_STREAM = 5_000;

export async function trimStreams(db: D1Database): Promise<number> {
  const long = await all<{ id: number; last: number; first: number }>(
    db,
    sql`SELECT s.stream_id AS id, s.last_seq AS last, s.first_seq AS first
      FROM streams s INDEXED BY streams_long
      WHERE s.last_seq - s.first_seq >= 1000
        AND (SELECT e.at FROM stream_events e WHERE e.stream_id = s.stream_id ORDER BY e.seq
          LIMIT 1) < ${NOW} - ${KEEP_MS}
      LIMIT ${STREAMS_PER_RUN}`,
  );
  for (const { id, last, first } of long) {
    const below = Math.min(last - KEEP_EVENTS + 1, first + EVENTS_PER_STREAM);
    const group = newGroup();
    await commit(db, group, [
      sql`DELETE FROM stream_events WHERE stream_id = ${id} AND seq < ${below}
        AND at < ${group.at} - ${KEEP_MS}`,
      sql`UPDATE streams SET first_seq = (SELECT min(seq) FROM stream_events
        WHERE stream_id = ${id}) WHERE stream_id = ${id}`,
    ]);
  }
  return long.length;
}
