/**
 * Protection of a maker: the match that reaches a limit cancels the maker's other open quotes in
 * the same commit (accept-quote.ts), and new ones are rejected until the cooldown ends or it is
 * reset. The trigger `matches_protection` counts. It rejects no accept of an open quote.
 */
import { actorRejection, mayWrite } from "../auth/may-write.ts";
import { auditOncePerMinute, recordOf } from "../audit/audit.ts";
import type { Actor } from "../platform/actor.ts";
import { type Group, newGroup, NOW } from "../platform/commit.ts";
import { storedEvent } from "../platform/event-forms.ts";
import { PROTECTION_CHANGED } from "./rfq-event-forms.ts";
import { Problem } from "../platform/problem.ts";
import { all, type Expr, first, readUuid, select, type Sql, sql, uuid } from "../platform/sql.ts";
import { toWireTimeOrNull } from "../platform/time.ts";
import { OLDEST_READ } from "../platform/windows.ts";
import { announce } from "../platform/announce.ts";
import { pushOrThrow } from "../streams/event-log.ts";
import { pusherOf } from "../streams/notify.ts";
import { type TimerFacts, timerFacts } from "./cancel-timer.ts";
import { closeInTurn, closeQuotes } from "./close-quotes.ts";
import {
  ofTripped,
  protectionColumns,
  type ProtectionRow,
  protectionView,
} from "./protection-record.ts";

/** Seconds of the window and of the cooldown, at most. */
export const MAX_WINDOW_SECS = OLDEST_READ.protection.ms / 1_000;
export const MAX_COOLDOWN_SECS = 86_400;

/** Null for no limit, and for a cooldown that only a reset ends. */
export type ProtectionTerms = {
  readonly windowSecs: number;
  readonly maxMatches: number | null;
  /** USDC native units. */
  readonly maxUsdc: bigint | null;
  readonly cooldownSecs: number | null;
  /** How far a quote may be from the last price, scaled by 1e6. */
  readonly maxDeviation?: number | null;
};

/** The user's protection, and the cancel-after timer of the calling credential. */
export async function getProtection(db: D1Database, actor: Actor) {
  const [row] = await all<ProtectionRow & TimerFacts>(
    db,
    sql`SELECT ${select({ ...protectionColumns(NOW), ...timerFacts(actor) })} FROM (SELECT 1)
      LEFT JOIN protections p ON p.user_id = ${uuid(actor.userId)}`,
  );
  return { ...protectionView(row), cancel_at: toWireTimeOrNull(row?.cancel_at ?? null) };
}

/**
 * Saves the terms. Counting starts again. A trip stays, because only a reset or time ends it. The
 * owner is notified of terms that differ and of counters that end, because a stolen key can loosen
 * the one and keep the other from tripping.
 */
export async function saveProtection(env: Env, actor: Actor, terms: ProtectionTerms, ip?: string) {
  const group = newGroup();
  const { maxDeviation = null } = terms;
  const record = recordOf(actor, "protection_changed", { ip, subjectId: actor.userId });
  const differs = sql`${mayWrite(actor, group.at)} AND EXISTS (SELECT 1 FROM protections
    WHERE user_id = ${uuid(actor.userId)} AND (window_secs IS NOT ${terms.windowSecs}
      OR max_matches IS NOT ${terms.maxMatches} OR max_usdc IS NOT ${terms.maxUsdc}
      OR cooldown_secs IS NOT ${terms.cooldownSecs} OR max_deviation IS NOT ${maxDeviation}
      OR matches > 0 OR usdc > 0))`;
  await change(env, actor, group, [
    ...auditOncePerMinute(record, group, differs),
    sql`INSERT INTO protections (user_id, window_secs, max_matches, max_usdc, cooldown_secs,
        max_deviation, period, matches, usdc, changed_group)
      SELECT ${uuid(actor.userId)}, ${terms.windowSecs}, ${terms.maxMatches}, ${terms.maxUsdc},
        ${terms.cooldownSecs}, ${maxDeviation}, 1, 0, 0, ${group.seq}
      WHERE ${mayWrite(actor, group.at)}
      ON CONFLICT (user_id) DO UPDATE SET window_secs = excluded.window_secs,
        max_matches = excluded.max_matches, max_usdc = excluded.max_usdc,
        max_deviation = excluded.max_deviation, cooldown_secs = excluded.cooldown_secs,
        period = period + 1, matches = 0, usdc = 0,
        changed_group = excluded.changed_group`,
  ]);
  return getProtection(env.DB, actor);
}

/** Ends a trip, notifies the owner and counts anew. No effect if no protection was ever saved. */
export async function resetProtection(env: Env, actor: Actor, ip?: string) {
  const group = newGroup();
  const mine = sql`user_id = ${uuid(actor.userId)}`;
  const record = recordOf(actor, "protection_reset", { ip, subjectId: actor.userId });
  // A reset of the counters alone counts, too: repeated, it keeps the protection from tripping.
  const ends = sql`${mayWrite(actor, group.at)} AND EXISTS (SELECT 1 FROM protections
    WHERE ${mine} AND (tripped_at IS NOT NULL OR matches > 0 OR usdc > 0))`;
  await change(env, actor, group, [
    ...auditOncePerMinute(record, group, ends),
    sql`UPDATE protections SET tripped_at = NULL, blocked_until = NULL, tripped_by = NULL,
        period = period + 1, matches = 0, usdc = 0, changed_group = ${group.seq}
      WHERE ${mine} AND ${mayWrite(actor, group.at)}`,
    ...announce(
      group,
      sql`SELECT p.user_id AS stream,
        ${storedEvent(PROTECTION_CHANGED, "protection.reset", protectionColumns(group.at))}, 0 AS ord
        FROM protections p WHERE p.${mine} AND p.changed_group = ${group.seq}`,
    ),
  ]);
  return getProtection(env.DB, actor);
}

/** Makers whose quotes cron cancels in one minute. */
const MAX_MAKERS = 100;

/** Cron: cancels what an accept left open because a quote could not be released. True: go on. */
export async function closeTripped(env: Env): Promise<boolean> {
  const makers = await all<{ id: string }>(
    env.DB,
    sql`SELECT DISTINCT hex(maker_id) AS id FROM protections t CROSS JOIN quotes
      ON quotes.maker_id = t.user_id AND status = 'open' AND stuck_at IS NULL
      WHERE t.tripped_at IS NOT NULL AND ${ofTripped(NOW)} LIMIT ${MAX_MAKERS}`,
  );
  const close = ({ id }: { id: string }) => {
    const which = (at: Expr) => sql`maker_id = ${uuid(readUuid(id))} AND ${ofTripped(at)}`;
    return closeQuotes(env, { reason: "protection", which });
  };
  const left = await closeInTurn(env, makers, close, ({ id }) => [
    "rfq.protection_not_closed",
    { user_id: readUuid(id) },
  ]);
  return left || makers.length === MAX_MAKERS;
}

async function change(env: Env, actor: Actor, group: Group, statements: readonly Sql[]) {
  const changed = sql`SELECT 1 AS changed FROM protections
    WHERE user_id = ${uuid(actor.userId)} AND changed_group = ${group.seq}`;
  const rows = await pushOrThrow(pusherOf(env), group, [...statements, changed]);
  const applied = rows === null ? await first(env.DB, changed) : rows[statements.length]?.at(0);
  if (applied === undefined) {
    const denied = await actorRejection(env.DB, actor);
    if (denied !== undefined) throw new Problem(denied);
  }
}
