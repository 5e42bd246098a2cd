/** Writes events of streams (src/streams/) in the batch of the change that they report. */
import type { Group } from "./commit.ts";
import { atom, type Expr, expr, join, literal, type Sql, sql } from "./sql.ts";

/** SQL for `account:<uuid>` from a BLOB column. */
export function accountStreamOf(column: string): Expr {
  const part = (from: number, bytes: number) => `hex(substr(${column},${from},${bytes}))`;
  const id = [part(1, 4), part(5, 2), part(7, 2), part(9, 2), part(11, 6)].join(" || '-' || ");
  return atom(`lower('account:' || ${id})`);
}

/** `active_at` of a stream lags its last event by at most this, as in `event_runs_advance`. */
export const ACTIVE_WITHIN_MS = 3_600_000;

/** Events in a row of `event_runs`, so that none comes near D1's limit of 2 MB. */
const MAX_RUN = 256;

/** The smallest `run_id` of a group. The trigger `event_commands_write` shifts by as many bits. */
export function firstRunOf(group: Expr): Expr {
  return expr`${group} << 20`;
}

/** The commit group of a `run_id`. */
export function groupOfRun(runId: Expr): Expr {
  return expr`${runId} >> 20`;
}

/** Opens the streams of `source` (a SELECT of `stream`) that do not exist yet. */
export function openStreams(source: Sql, at: Expr): Sql {
  return sql`INSERT INTO streams (name, last_seq, pushed_seq, first_seq, active_at)
    SELECT DISTINCT e.stream, r.last_seq, r.last_seq, r.last_seq + 1, ${at}
    FROM (${source}) e, (SELECT coalesce(max(last_seq), 0) AS last_seq FROM removed_streams) r
    WHERE NOT EXISTS (SELECT 1 FROM streams s WHERE s.name = e.stream)`;
}

/**
 * Writes one event per row of each source, in the order of the sources. A source is a SELECT of
 * `stream` (a name, or the user's id for an account's stream), `ids`, `body` (event-forms.ts) and
 * `ord` (the order within the source). The trigger of `event_commands` opens new streams.
 */
export function announce(group: Group, ...sources: readonly Sql[]): Sql[] {
  const events = join(
    sources.map(
      (source, index) =>
        sql`SELECT stream, ids, body, ${literal(index)} AS source, ord FROM (${source})`,
    ),
    " UNION ALL ",
  );
  return [
    sql`INSERT INTO event_commands (stream, n, written_group, at, ids, events)
      SELECT iif(typeof(stream) = 'blob', ${accountStreamOf("stream")}, stream), count(*),
        ${group.seq}, ${group.at},
        unhex(group_concat(ids, '' ORDER BY n)),
        '[' || group_concat('[' || place || ',' || substr(body, 2) || ']', ',' ORDER BY n) || ']'
      FROM (SELECT e.stream, e.ids, e.body, row_number() OVER earlier AS n,
          (sum(length(e.ids)) OVER earlier - length(e.ids)) / 32 AS place
        FROM (${events}) e
        WINDOW earlier AS (PARTITION BY e.stream ORDER BY e.source, e.ord
          ROWS UNBOUNDED PRECEDING))
      GROUP BY stream, (n - 1) / ${literal(MAX_RUN)} ORDER BY stream, min(n)`,
  ];
}
