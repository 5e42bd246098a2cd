/**
 * Protection of a maker: the match that reaches a limit cancels the maker's other open quotes in the
 * same commit (accept-quote.ts), and new ones are rejected until the cooldown ends or it is reset.
 * The trigger `matches_protection` counts. No accept of an open quote is rejected because of it.
 */
import { toHex } from "../assets/amount.ts";
import { actorRejection, mayWrite } from "../auth/may-write.ts";
import type { Actor } from "../platform/actor.ts";
import { commitOrThrow, type Group, newGroup, NOW } from "../platform/commit.ts";
import type { JsonRow } from "../platform/columns.ts";
import { Problem } from "../platform/problem.ts";
import {
  atom,
  type Columns,
  type Expr,
  expr,
  first,
  jsonObject,
  readUuid,
  select,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import { toWireTime, toWireTimeOrNull } from "../platform/time.ts";
import { accountStreamOf, announce, committedEvents, eventsToPush } from "../streams/event-log.ts";
import { notifyStreams } from "../streams/notify.ts";
import { reject, type Result } from "./command.ts";
import type { protections } from "./tables.ts";

/** Seconds of the window and of the cooldown, at most. */
export const MAX_WINDOW_SECS = 3_600;
export const MAX_COOLDOWN_SECS = 86_400;

/** Null for no limit, and for a cooldown that only a reset ends. */
export type ProtectionTerms = {
  readonly windowSecs: number;
  readonly maxMatches: number | null;
  /** USDC native units. */
  readonly maxUsdc: bigint | null;
  readonly cooldownSecs: number | null;
};

export type ProtectionRow = JsonRow<
  typeof protections,
  | "window_secs"
  | "max_matches"
  | "max_usdc"
  | "cooldown_secs"
  | "tripped_at"
  | "blocked_until"
  | "tripped_by"
>;

/** Over `protections p`: it has tripped, and neither a reset nor the cooldown has ended that. */
function isBlocked(at: Expr): Expr {
  return expr`p.tripped_at IS NOT NULL AND ifnull(p.blocked_until > ${at}, 1)`;
}

/** A trip whose cooldown has ended is left out. */
function columns(at: Expr): Columns<keyof ProtectionRow> {
  const whileBlocked = (value: string) => expr`iif(${isBlocked(at)}, ${atom(value)}, NULL)`;
  return {
    window_secs: atom("p.window_secs"),
    max_matches: atom("p.max_matches"),
    max_usdc: atom("CAST(p.max_usdc AS TEXT)"),
    cooldown_secs: atom("p.cooldown_secs"),
    tripped_at: whileBlocked("p.tripped_at"),
    blocked_until: whileBlocked("p.blocked_until"),
    tripped_by: whileBlocked("hex(p.tripped_by)"),
  };
}

/** `row` is undefined if the user has never saved a protection. */
function protectionView(row: ProtectionRow | undefined) {
  const maxUsdc = row?.max_usdc ?? null;
  return {
    window_secs: row?.window_secs ?? null,
    max_matches: row?.max_matches ?? null,
    max_usdc: maxUsdc === null ? null : toHex(BigInt(maxUsdc)),
    cooldown_secs: row?.cooldown_secs ?? null,
    tripped_at: toWireTimeOrNull(row?.tripped_at ?? null),
    blocked_until: toWireTimeOrNull(row?.blocked_until ?? null),
  };
}

/** The record and the match that tripped it, as the account stream shows them. */
export function protectionEventView(row: ProtectionRow) {
  const { tripped_by: matchId } = row;
  return { ...protectionView(row), match_id: matchId === null ? null : readUuid(matchId) };
}

export async function getProtection(db: D1Database, userId: string) {
  const row = await first<ProtectionRow>(
    db,
    sql`SELECT ${select(columns(NOW))} FROM protections p WHERE p.user_id = ${uuid(userId)}`,
  );
  return protectionView(row);
}

/** Saves the terms. Counting starts again. A trip stays, because only a reset or time ends it. */
export async function saveProtection(env: Env, actor: Actor, terms: ProtectionTerms) {
  const group = newGroup();
  await change(env, actor, group, [
    sql`INSERT INTO protections (user_id, window_secs, max_matches, max_usdc, cooldown_secs, period,
        matches, usdc, changed_group)
      SELECT ${uuid(actor.userId)}, ${terms.windowSecs}, ${terms.maxMatches}, ${terms.maxUsdc},
        ${terms.cooldownSecs}, 1, 0, 0, ${group.seq}
      WHERE ${mayWrite(actor, group.at)}
      ON CONFLICT (user_id) DO UPDATE SET window_secs = excluded.window_secs,
        max_matches = excluded.max_matches, max_usdc = excluded.max_usdc,
        cooldown_secs = excluded.cooldown_secs, period = period + 1, matches = 0, usdc = 0,
        changed_group = excluded.changed_group`,
  ]);
  return getProtection(env.DB, actor.userId);
}

/** Ends a trip. Counting starts again. Has no effect if the user has never saved a protection. */
export async function resetProtection(env: Env, actor: Actor) {
  const group = newGroup();
  const mine = sql`user_id = ${uuid(actor.userId)}`;
  await change(env, actor, group, [
    sql`UPDATE protections SET tripped_at = NULL, blocked_until = NULL, tripped_by = NULL,
        period = period + 1, matches = 0, usdc = 0, changed_group = ${group.seq}
      WHERE ${mine} AND ${mayWrite(actor, group.at)}`,
    ...announce(
      group,
      sql`SELECT ${accountStreamOf("p.user_id")} AS stream, 'protection.reset' AS type,
        ${jsonObject(columns(group.at))} AS body, 0 AS ord
        FROM protections p WHERE p.${mine} AND p.changed_group = ${group.seq}`,
    ),
  ]);
  return getProtection(env.DB, actor.userId);
}

async function change(
  env: Env,
  actor: Actor,
  group: Group,
  statements: readonly Sql[],
): Promise<void> {
  const changed = sql`SELECT 1 AS changed FROM protections
    WHERE user_id = ${uuid(actor.userId)} AND changed_group = ${group.seq}`;
  const rows = await commitOrThrow(env.DB, group, [...statements, changed, eventsToPush(group)]);
  const applied = rows === null ? await first(env.DB, changed) : rows[statements.length]?.at(0);
  if (applied === undefined) {
    const denied = await actorRejection(env.DB, actor);
    if (denied !== undefined) throw new Problem(denied);
  }
  await notifyStreams(env, await committedEvents(env.DB, group, { rows }));
}

/** Guard condition of a new quote: no protection of its maker has tripped. */
export function protectionNotTripped(makerId: Expr, at: Expr): Expr {
  return expr`NOT EXISTS (SELECT 1 FROM protections p
    WHERE p.user_id = ${makerId} AND ${isBlocked(at)})`;
}

/** `until` in Unix milliseconds. Null: until it is reset. */
export function protectionTripped(until: number | null): Result {
  const end = until === null ? "Reset it to quote again" : `It ends at ${toWireTime(until)}`;
  return reject("protection_tripped", `Your protection has tripped. ${end}.`, {
    blocked_until: toWireTimeOrNull(until),
  });
}

export type ProtectionFacts = { readonly blocked_until: number | null };

export function protectionFacts(userId: string): Columns<keyof ProtectionFacts> {
  return {
    blocked_until: expr`SELECT p.blocked_until FROM protections p
      WHERE p.user_id = ${uuid(userId)}`,
  };
}

/** Selects the open quotes of the maker whose protection this match tripped. None, if it did not. */
export function quotesOfTripped(matchId: string): Sql {
  return sql`SELECT o.quote_id FROM matches m
    JOIN protections p ON p.user_id = m.maker_id AND p.tripped_by = m.match_id
    JOIN quotes o ON o.maker_id = p.user_id AND o.status = 'open'
    WHERE m.match_id = ${uuid(matchId)}`;
}

/** `protection.tripped` for each protection that the group's matches tripped. */
export function protectionsTripped(group: Group): Sql {
  // Sorts behind every match id, so that the match comes before its effect.
  return sql`SELECT ${accountStreamOf("p.user_id")} AS stream, 'protection.tripped' AS type,
      ${jsonObject(columns(group.at))} AS body, x'FF' AS ord
    FROM matches m JOIN protections p ON p.user_id = m.maker_id AND p.tripped_by = m.match_id
    WHERE m.matched_group = ${group.seq}`;
}
