/** A maker's protection as rows and on the wire, and what quotes and accepts ask of it. */
import { toHex } from "../assets/amount.ts";
import type { Group } from "../platform/commit.ts";
import { storedEvent } from "../platform/event-forms.ts";
import { PROTECTION_CHANGED } from "./rfq-event-forms.ts";
import {
  atom,
  type Columns,
  type Expr,
  expr,
  readUuid,
  type RowOf,
  type Sql,
  sql,
  type Typed,
  typed,
  uuid,
} from "../platform/sql.ts";
import { toWireTime, toWireTimeOrNull } from "../platform/time.ts";
import { reject, type Result } from "./command.ts";

/** Over `protections p`: it has tripped, and neither a reset nor the cooldown has ended that. */
function isBlocked(at: Expr): Expr {
  return expr`p.tripped_at IS NOT NULL AND ifnull(p.blocked_until > ${at}, 1)`;
}

/** A trip whose cooldown has ended is omitted. */
export function protectionColumns(at: Expr) {
  const whileBlocked = <Value>(column: string): Typed<Value | null> =>
    expr`iif(${isBlocked(at)}, ${atom(column)}, NULL)`;
  return {
    /** Null if the user has never saved a protection. */
    window_secs: typed<number | null>("p.window_secs"),
    max_matches: typed<number | null>("p.max_matches"),
    max_usdc: typed<string | null>("CAST(p.max_usdc AS TEXT)"),
    cooldown_secs: typed<number | null>("p.cooldown_secs"),
    max_deviation: typed<number | null>("p.max_deviation"),
    tripped_at: whileBlocked<number>("p.tripped_at"),
    blocked_until: whileBlocked<number>("p.blocked_until"),
    tripped_by: whileBlocked<string>("hex(p.tripped_by)"),
  };
}

export type ProtectionRow = RowOf<ReturnType<typeof protectionColumns>>;

export function protectionView(row: ProtectionRow | undefined) {
  const maxUsdc = row?.max_usdc ?? null;
  return {
    window_secs: row?.window_secs ?? null,
    max_matches: row?.max_matches ?? null,
    max_usdc: maxUsdc === null ? null : toHex(BigInt(maxUsdc)),
    cooldown_secs: row?.cooldown_secs ?? null,
    max_deviation: row?.max_deviation ?? null,
    tripped_at: toWireTimeOrNull(row?.tripped_at ?? null),
    blocked_until: toWireTimeOrNull(row?.blocked_until ?? null),
  };
}

/** The record and the match that tripped it, as the account stream shows them. */
export function protectionEventView(row: ProtectionRow) {
  const { tripped_by: matchId } = row;
  return { ...protectionView(row), match_id: matchId === null ? null : readUuid(matchId) };
}

/** The open quotes of makers whose protection has tripped, as a condition over `quotes`. */
export function ofTripped(at: Expr): Expr {
  return expr`EXISTS (SELECT 1 FROM protections p
    WHERE p.user_id = quotes.maker_id AND ${isBlocked(at)})`;
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

/** Selects the open quotes of the maker whose protection this match tripped. None if it did not. */
export function quotesOfTripped(of: Columns<"match_id" | "maker_id">): Sql {
  return sql`SELECT o.quote_id FROM protections p
    JOIN quotes o ON o.maker_id = p.user_id AND o.status = 'open'
    WHERE p.user_id = ${of.maker_id} AND p.tripped_by = ${of.match_id}`;
}

/** `protection.tripped` for each protection that the group's matches tripped. */
export function protectionsTripped(group: Group): Sql {
  // Sorts behind every match id, so that the match comes before its effect.
  return sql`SELECT p.user_id AS stream,
      ${storedEvent(PROTECTION_CHANGED, "protection.tripped", protectionColumns(group.at))},
      x'FF' AS ord
    FROM matches m JOIN protections p ON p.user_id = m.maker_id AND p.tripped_by = m.match_id
    WHERE m.matched_group = ${group.seq}`;
}
