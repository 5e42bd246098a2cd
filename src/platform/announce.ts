/** Writes events of streams (src/streams/) in the batch of the change that they report. */
import type { Group } from "./commit.ts";
import { atom, type Expr, join, literal, type Sql, sql } from "./sql.ts";

/** SQL for `account:<uuid>` from a BLOB column. */
export function accountStreamOf(column: string): Expr {
  const h = `lower(hex(${column}))`;
  return atom(
    `('account:' || substr(${h},1,8) || '-' || substr(${h},9,4) || '-' || substr(${h},13,4)
      || '-' || substr(${h},17,4) || '-' || substr(${h},21))`,
  );
}

/** `active_at` of a stream is at most this far behind its last event. */
export const ACTIVE_WITHIN_MS = 3_600_000;

/** Opens the streams of `source` (a SELECT of `stream`) that do not exist yet. */
export function openStreams(source: Sql, at: Expr): Sql {
  return sql`INSERT INTO streams (name, last_seq, pushed_seq, first_seq, active_at)
    SELECT DISTINCT e.stream, r.last_seq, r.last_seq, r.last_seq + 1, ${at}
    FROM (${source}) e, (SELECT coalesce(max(last_seq), 0) AS last_seq FROM removed_streams) r
    WHERE NOT EXISTS (SELECT 1 FROM streams s WHERE s.name = e.stream)`;
}

/**
 * Statements that write one event per row of each source, in the order of the sources. A source is
 * a SELECT that names `stream`, `type`, `body` (JSON text of the record's columns, rendered when it
 * is sent) and `ord` (the order within the source). At the end they advance each stream once.
 */
export function announce(group: Group, ...sources: readonly Sql[]): Sql[] {
  const events = join(
    sources.map(
      (source, index) =>
        sql`SELECT stream, type, body, ${literal(index)} AS source, ord FROM (${source})`,
    ),
    " UNION ALL ",
  );
  return [
    openStreams(events, group.at),
    sql`INSERT INTO stream_events (stream_id, seq, written_group, run, at, type, body)
      SELECT stream_id, last_seq + n, ${group.seq}, iif(n = 1, run, NULL), ${group.at}, type, body
      FROM (SELECT s.stream_id, max(s.last_seq, coalesce((SELECT max(w.seq) FROM stream_events w
            WHERE w.stream_id = s.stream_id), 0)) AS last_seq,
          row_number() OVER (PARTITION BY s.stream_id ORDER BY e.source, e.ord) AS n,
          count(*) OVER (PARTITION BY s.stream_id) AS run, e.type, e.body
        FROM (${events}) e JOIN streams s ON s.name = e.stream)
      ORDER BY stream_id, n`,
    ...advanceStreams(group),
  ];
}

/** Two statements, because the second one changes an index, and only once an hour. */
function advanceStreams(group: Group): Sql[] {
  const written = sql`stream_id IN (SELECT e.stream_id FROM stream_events e
    WHERE e.written_group = ${group.seq} AND e.run IS NOT NULL)`;
  return [
    sql`UPDATE streams SET last_seq = (SELECT max(e.seq) FROM stream_events e
        WHERE e.stream_id = streams.stream_id)
      WHERE ${written} AND last_seq < (SELECT max(e.seq) FROM stream_events e
        WHERE e.stream_id = streams.stream_id)`,
    sql`UPDATE streams SET active_at = ${group.at}
      WHERE ${written} AND active_at < ${group.at} - ${ACTIVE_WITHIN_MS}`,
  ];
}
