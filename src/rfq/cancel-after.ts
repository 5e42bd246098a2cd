/**
 * A timer of a credential for its own quotes. Each call moves it, so a bot that stops calling loses
 * its quotes. From `cancel_at` on their accepts are rejected, and the credential places no quote
 * until its next call. The alarm of the user's account stream closes them (feed.ts), or cron.
 */
import { actorRejectionOf, actorFacts, credentialOf, mayWrite } from "../auth/may-write.ts";
import type { Actor } from "../platform/actor.ts";
import { NOW } from "../platform/commit.ts";
import { logged } from "../platform/log.ts";
import { near } from "../platform/near.ts";
import { Problem, unavailable } from "../platform/problem.ts";
import {
  all,
  type Expr,
  expr,
  first,
  scalar,
  select,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import { toWireTimeOrNull } from "../platform/time.ts";
import { accountStream } from "../streams/event-log.ts";
import { passedTimer, type TimerFacts, timerFacts } from "./cancel-timer.ts";
import { closeInTurn, closeQuotes } from "./close-quotes.ts";

/** Seconds until the timer runs out. 0 removes it. */
export const CANCEL_AFTER_SECS = { min: 5, max: 600 } as const;
/** Cron leaves an alarm this much time before it acts instead. */
const ALARM_GRACE_MS = 5_000;
const MAX_TIMERS = 200;

/** Sets the timer of the calling credential, or removes it with 0. */
export async function cancelAfter(
  env: Env,
  actor: Actor,
  timeoutSecs: number,
): Promise<{ cancel_at: string | null }> {
  const moved = timeoutSecs === 0 ? undefined : await moveTimer(env.DB, actor, timeoutSecs);
  if (moved === undefined) await replaceTimer(env, actor, timeoutSecs);
  const timer = sql`SELECT ${select(timerFacts(actor))}`;
  const cancelAt = moved ?? (await first<TimerFacts>(env.DB, timer))?.cancel_at ?? null;
  if (cancelAt !== null) await wakeAt(env, actor.userId, cancelAt);
  return { cancel_at: toWireTimeOrNull(cancelAt) };
}

/** One statement, as bots call often. Undefined if it has run out or the actor may not write. */
async function moveTimer(
  db: D1Database,
  actor: Actor,
  timeoutSecs: number,
): Promise<number | undefined> {
  const row = await first<{ cancel_at: number }>(
    db,
    sql`INSERT INTO cancel_timers (credential, user_id, cancel_at, closed)
      SELECT ${credentialOf(actor)}, ${uuid(actor.userId)}, ${NOW} + ${timeoutSecs * 1_000}, 0
      WHERE ${mayWrite(actor, NOW)}
      ON CONFLICT (credential) DO UPDATE SET cancel_at = excluded.cancel_at
        WHERE cancel_at > ${NOW}
      RETURNING cancel_at`,
  );
  return row?.cancel_at;
}

/** Closes the quotes of a timer that ran out, then sets it again. No quote comes back to life. */
async function replaceTimer(env: Env, actor: Actor, timeoutSecs: number): Promise<void> {
  const credential = credentialOf(actor);
  const which = (at: Expr) =>
    sql`${timedOut(uuid(actor.userId), credential, at)} AND ${mayWrite(actor, at)}`;
  const { rows } = await closeQuotes(env, { reason: "timeout", which }, ({ at }) => [
    sql`SELECT ${actorFacts(actor).actor} AS actor`,
    sql`DELETE FROM cancel_timers WHERE credential = ${credential} AND ${mayWrite(actor, at)}`,
    ...(timeoutSecs === 0
      ? []
      : [
          sql`INSERT INTO cancel_timers (credential, user_id, cancel_at, closed)
            SELECT ${credential}, ${uuid(actor.userId)}, ${at} + ${timeoutSecs * 1_000}, 0
            WHERE ${mayWrite(actor, at)}`,
        ]),
  ]);
  // The outcome of a call can be read from the table only if the actor may write.
  if (rows === null) throw unavailable("unknown");
  // Safe cast: the first statement alongside selects it.
  const [facts] = (rows[0] ?? []) as { actor: string | null }[];
  const denied = actorRejectionOf(actor, facts ?? { actor: null });
  if (denied !== undefined) throw new Problem(denied);
}

/** Asks the object of the user's account stream to close the quotes. Never throws. */
async function wakeAt(env: Env, userId: string, instant: number): Promise<void> {
  const feed = near(env, env.FEED, accountStream(userId));
  await feed
    .closeQuotesAt(instant)
    .catch(logged("warn", "rfq.timer_not_armed", { user_id: userId }));
}

type Timer = { readonly credential: string; readonly user_id: string };

/** Timers that have run out and whose quotes are open. */
function dueTimers(db: D1Database, which: Sql): Promise<Timer[]> {
  return all<Timer>(
    db,
    sql`SELECT hex(credential) AS credential, hex(user_id) AS user_id FROM cancel_timers
      WHERE closed = 0 AND ${which} LIMIT ${MAX_TIMERS}`,
  );
}

/** Closes what is due of a user. Returns when the next timer runs out, or null. */
export async function closeTimedOut(env: Env, userId: string): Promise<number | null> {
  const mine = sql`user_id = ${uuid(userId)}`;
  for (const timer of await dueTimers(env.DB, sql`${mine} AND cancel_at <= ${NOW}`))
    await close(env, timer);
  return scalar(
    env.DB,
    expr`SELECT min(cancel_at) FROM cancel_timers WHERE closed = 0 AND ${mine}`,
  );
}

/** Cron: closes what the alarms have missed. Returns whether more is due. */
export async function closeMissedTimers(env: Env): Promise<boolean> {
  const due = await dueTimers(env.DB, sql`cancel_at <= ${NOW} - ${ALARM_GRACE_MS}`);
  const left = await closeInTurn(
    env,
    due,
    (timer) => close(env, timer),
    ({ user_id }) => ["rfq.timer_not_closed", { user_id }],
  );
  return left || due.length === MAX_TIMERS;
}

/** A call that moves the timer at the same time comes before or after the whole batch. */
async function close(env: Env, timer: Timer): Promise<void> {
  const credential = uuid(timer.credential);
  const which = (at: Expr) => timedOut(uuid(timer.user_id), credential, at);
  await closeQuotes(env, { reason: "timeout", which }, ({ at }) => [
    sql`UPDATE cancel_timers SET closed = 1
      WHERE credential = ${credential} AND cancel_at <= ${at}`,
  ]);
}

/** Condition on quotes: they are of a credential whose timer has run out. */
function timedOut(user: Expr, credential: Expr, at: Expr): Sql {
  return sql`maker_id = ${user} AND credential = ${credential}
    AND EXISTS (${passedTimer(credential, at)})`;
}
