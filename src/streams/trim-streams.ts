/**
 * Cron: deletes old events, and streams without an event for hours that nobody subscribes to. Any
 * asset id opens one, so one user could fill the database. No number is ever used again.
 */
import { commit, newGroup, NOW } from "../platform/commit.ts";
import { config } from "../platform/config.ts";
import { queriesLeft } from "../platform/query-limit.ts";
import {
  all,
  atom,
  expr,
  type Expr,
  first,
  listed,
  literal,
  sql,
  type Sql,
} from "../platform/sql.ts";
import { KEPT, windowsOf } from "../platform/windows.ts";
import { ACTIVE_WITHIN_MS, firstRunOf, groupOfRun } from "../platform/announce.ts";
import { catchUpStreams } from "./notify.ts";

const BUDGET_MS = 10_000;
/** Of a batch, with the look for a lost response. */
const QUERIES_PER_BATCH = 20;
/** Runs that one batch deletes, unless a single group has written more. */
const RUNS_PER_BATCH = 2_000;

export async function trimStreams(env: Env): Promise<void> {
  await trimEvents(env.DB, windowsOf(config(env)).events);
  await removeDormant(env);
}

/** The oldest first, of whole groups, and only what the reconciliation has compared. */
async function trimEvents(db: D1Database, keepMs: number): Promise<void> {
  const started = Date.now();
  while (Date.now() - started < BUDGET_MS && queriesLeft(db) > QUERIES_PER_BATCH) {
    const old = await first<{ group: number | null; runs: number }>(
      db,
      sql`SELECT max("group") AS "group", count(*) AS runs FROM (
          SELECT ${groupOfRun(atom("run_id"))} AS "group", at FROM event_runs
          ORDER BY run_id LIMIT ${RUNS_PER_BATCH})
        WHERE at < ${NOW} - ${keepMs} AND "group" <= coalesce(
          (SELECT position FROM ledger_checkpoints WHERE scan = 'groups'), 0)`,
    );
    if (old === undefined || old.group === null) return;
    const kept = firstRunOf(literal(old.group + 1));
    await commit(db, newGroup(), [
      // The next number if the last event goes. After a restore older events may be left below it.
      sql`UPDATE streams SET first_seq = coalesce((SELECT r.first_seq FROM event_runs r
            WHERE r.stream_id = streams.stream_id AND r.last_seq >= streams.first_seq
              AND r.run_id >= ${kept}
            ORDER BY r.last_seq LIMIT 1), last_seq + 1)
        WHERE stream_id IN (SELECT stream_id FROM event_runs WHERE run_id < ${kept})`,
      sql`DELETE FROM event_runs WHERE run_id < ${kept}`,
    ]);
    if (old.runs < RUNS_PER_BATCH) return;
  }
}

const IDLE_MS = KEPT.events + ACTIVE_WITHIN_MS;
const STREAMS_PER_BATCH = 500;
/** Events that one batch removes, unless a single stream has more. */
const EVENTS_PER_BATCH = 5_000;

type Idle = { id: number; name: string; subscribed: number };

async function removeDormant(env: Env): Promise<void> {
  const started = Date.now();
  while (Date.now() - started < BUDGET_MS && queriesLeft(env.DB) > QUERIES_PER_BATCH) {
    // The events of longer streams are deleted first.
    const idle = await all<Idle>(
      env.DB,
      sql`SELECT id, name, subscribed FROM (
          SELECT s.stream_id AS id, s.name, row_number() OVER earlier AS n,
            sum(s.last_seq - s.first_seq + 1) OVER earlier AS events,
            EXISTS (SELECT 1 FROM stream_subscribers r WHERE r.name = s.name) AS subscribed
          FROM (SELECT * FROM streams INDEXED BY streams_idle
            WHERE active_at < ${NOW} - ${IDLE_MS} AND last_seq - first_seq < ${EVENTS_PER_BATCH}
            ORDER BY active_at LIMIT ${STREAMS_PER_BATCH}) s
          WINDOW earlier AS (ORDER BY s.active_at, s.stream_id ROWS UNBOUNDED PRECEDING))
        WHERE n = 1 OR events <= ${EVENTS_PER_BATCH}`,
    );
    if (idle.length === 0) return;
    const { subscribed = [], left = [] } = Object.groupBy(idle, (stream) =>
      stream.subscribed === 1 ? "subscribed" : "left",
    );
    await askSubscribed(env, subscribed);
    await remove(
      env.DB,
      left.map(({ id }) => id),
    );
  }
}

/** An object without sockets ends its registration. A day later its stream counts as dormant. */
async function askSubscribed(env: Env, streams: readonly Idle[]): Promise<void> {
  if (streams.length === 0) return;
  const ids = listed(streams.map(({ id }) => id));
  await all(
    env.DB,
    sql`UPDATE streams SET active_at = ${NOW}
      WHERE stream_id IN (${ids})`,
  );
  await catchUpStreams(
    env,
    streams.map(({ name }) => name),
  );
}

/** Whether they are dormant is decided in the batch, because any of them may have a new event. */
async function remove(db: D1Database, ids: readonly number[]): Promise<void> {
  if (ids.length === 0) return;
  const group = newGroup();
  const dormant = expr`stream_id IN (${listed(ids)})
    AND active_at < ${group.at} - ${IDLE_MS}
    AND NOT EXISTS (SELECT 1 FROM stream_subscribers r WHERE r.name = streams.name)`;
  await commit(db, group, [
    // A subscriber who returns with one of these numbers receives a resync, because a stream of the
    // same name starts above them all.
    sql`INSERT INTO removed_streams (only, last_seq)
      SELECT 1, max(last_seq) FROM streams WHERE ${dormant} HAVING count(*) > 0
      ON CONFLICT (only) DO UPDATE SET last_seq = max(last_seq, excluded.last_seq)`,
    sql`DELETE FROM event_runs
      WHERE stream_id IN (SELECT stream_id FROM streams WHERE ${dormant})`,
    sql`DELETE FROM streams WHERE ${dormant}`,
  ]);
}

/** Transfers and stream events skip this many numbers, so that none issued since is reused. */
export const SEQUENCE_JUMP = 1_000_000;

/** Skips numbers of streams. What a client last saw then counts as trimmed, so it resyncs. */
export function skipEvents(when: Expr): Sql[] {
  return [
    sql`UPDATE streams SET last_seq = last_seq + ${SEQUENCE_JUMP},
      pushed_seq = last_seq + ${SEQUENCE_JUMP}, first_seq = last_seq + ${SEQUENCE_JUMP + 1}
      WHERE ${when}`,
    sql`INSERT INTO removed_streams (only, last_seq) SELECT 1, ${SEQUENCE_JUMP} WHERE ${when}
      ON CONFLICT (only) DO UPDATE SET last_seq = last_seq + ${SEQUENCE_JUMP}`,
  ];
}
