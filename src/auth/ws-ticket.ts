/** Websocket tickets: 32 random bytes, stored hashed, good for 30 seconds and one socket. */
import { createHash } from "node:crypto";
import { commitOrThrow, newGroup, NOW } from "../platform/commit.ts";
import { problem, Problem } from "../platform/problem.ts";
import { trimUntilDone } from "../platform/trim.ts";
import { all, first, readUuid, type Sql, sql, uuid } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { actorRejection, mayWrite } from "./may-write.ts";
import { optionalUuid } from "./audit.ts";
import { readAllowedIps } from "./credential-cache.ts";
import { ipAllowed } from "../http/ip-range.ts";
import { scopeMissing } from "./permit.ts";
import { readScopes, writeScopes } from "./scope.ts";
import type { Actor, Scope } from "../platform/actor.ts";

const TICKET_LIFETIME_MS = 30_000;

export type TicketAnswer = { ticket: string; expires_at: string; scopes: Scope[] };

/** `scopes`: read for a session, the key's own for a signed call. */
export async function issueTicket(
  db: D1Database,
  actor: Actor,
  scopes: readonly Scope[],
): Promise<TicketAnswer> {
  const ticket = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url");
  const { credential } = actor;
  const session = credential.kind === "session" ? credential : undefined;
  const group = newGroup();
  const mine = sql`ticket_hash = ${hashOf(ticket)}`;
  const rows = await commitOrThrow(db, group, [
    sql`INSERT INTO ws_tickets (ticket_hash, user_id, api_key_id, session_epoch, session_expires_at, scopes, expires_at)
      SELECT ${hashOf(ticket)}, ${uuid(actor.userId)}, ${optionalUuid(credential.kind === "api_key" ? credential.apiKeyId : null)},
        ${session?.epoch ?? null}, ${session?.expiresAtMs ?? null}, ${writeScopes(scopes)}, ${group.at} + ${TICKET_LIFETIME_MS}
      WHERE ${mayWrite(actor, group.at)}`,
    sql`SELECT expires_at FROM ws_tickets WHERE ${mine}`,
  ]);
  const row =
    rows === null
      ? await first<{ expires_at: number }>(
          db,
          sql`SELECT expires_at FROM ws_tickets WHERE ${mine}`,
        )
      : expiryOf(rows[1]?.[0]);
  if (row === undefined) {
    const refused = await actorRejection(db, actor);
    throw refused === undefined
      ? new Error("no ticket although nothing stands in the way")
      : new Problem(refused);
  }
  return { ticket, expires_at: toWireTime(row.expires_at), scopes: [...scopes] };
}

type TicketRow = {
  user_id: string;
  api_key_id: string | null;
  session_epoch: number | null;
  session_expires_at: number | null;
  scopes: string;
};

/** Whoever opens a socket; `expiresAtMs` is when their credential ends by itself, null for never. */
export type TicketActor = Actor & { readonly expiresAtMs: number | null };

/**
 * Uses a ticket up for one socket on `stream` (SQL where it depends on the ticket's user), then reads its key and user afresh. Throws, in this order:
 * `ticket_invalid`, 401 of the key or session, `account_frozen`, `ip_not_allowed`, `scope_missing`.
 */
export async function consumeTicket(
  db: D1Database,
  upgrade: { ticket: string; stream: string | Sql; clientIp: string | undefined },
): Promise<TicketActor> {
  const row = await first<TicketRow>(
    db,
    sql`UPDATE ws_tickets SET used_at = ${NOW}, stream = ${upgrade.stream}
      WHERE ticket_hash = ${hashOf(upgrade.ticket)} AND used_at IS NULL AND expires_at > ${NOW}
      RETURNING hex(user_id) AS user_id, CASE WHEN api_key_id IS NULL THEN NULL ELSE hex(api_key_id) END AS api_key_id,
        session_epoch, session_expires_at, scopes`,
  );
  if (row === undefined)
    throw problem(
      "ticket_invalid",
      "The ticket is unknown, was used, or is older than 30 seconds.",
    );
  const actor = actorOf(row);
  const refused = await actorRejection(db, actor);
  if (refused !== undefined) throw new Problem(refused);
  const limits = await keyLimits(db, actor);
  if (!ipAllowed(upgrade.clientIp, limits.allowedIps))
    throw problem("ip_not_allowed", "The key's list of addresses does not hold yours.");
  if (!actor.scopes.includes("read")) throw scopeMissing("read", actor.scopes);
  return { ...actor, expiresAtMs: limits.expiresAtMs };
}

function actorOf(row: TicketRow): Actor {
  const base = { userId: readUuid(row.user_id), scopes: readScopes(row.scopes) };
  if (row.api_key_id !== null)
    return { ...base, credential: { kind: "api_key", apiKeyId: readUuid(row.api_key_id) } };
  return {
    ...base,
    credential: {
      kind: "session",
      epoch: row.session_epoch ?? -1,
      expiresAtMs: row.session_expires_at ?? 0,
    },
  };
}

async function keyLimits(
  db: D1Database,
  { credential }: Actor,
): Promise<{ allowedIps: readonly string[] | null; expiresAtMs: number | null }> {
  if (credential.kind === "session")
    return { allowedIps: null, expiresAtMs: credential.expiresAtMs };
  const row = await first<{ allowed_ips: string | null; expires_at: number | null }>(
    db,
    sql`SELECT allowed_ips, expires_at FROM api_keys WHERE api_key_id = ${uuid(credential.apiKeyId)}`,
  );
  return row === undefined
    ? { allowedIps: [], expiresAtMs: 0 }
    : { allowedIps: readAllowedIps(row.allowed_ips), expiresAtMs: row.expires_at };
}

/** Which streams the credentials of `which` have opened: used tickets remember, so that their objects can be told. */
export async function openedStreams(
  db: D1Database,
  userId: string,
  which: { kind: "api_key"; apiKeyId: string } | { kind: "sessions" } | { kind: "all" },
): Promise<string[]> {
  const those: Sql =
    which.kind === "all"
      ? sql`1`
      : which.kind === "sessions"
        ? sql`api_key_id IS NULL`
        : sql`api_key_id = ${uuid(which.apiKeyId)}`;
  const rows = await all<{ stream: string }>(
    db,
    sql`SELECT DISTINCT stream FROM ws_tickets WHERE user_id = ${uuid(userId)} AND used_at IS NOT NULL AND stream IS NOT NULL AND ${those}`,
  );
  return rows.map((row) => row.stream);
}

/** Used tickets are kept for as long as a socket may live: deploys close them all long before. */
const KEEP_USED_MS = 7 * 86_400_000;

/** Cron: unused tickets go when they are dead, used ones when no socket of theirs can be left. */
export async function trimTickets(db: D1Database): Promise<void> {
  await trimUntilDone(
    db,
    (rows) => sql`DELETE FROM ws_tickets WHERE ticket_hash IN (
    SELECT ticket_hash FROM ws_tickets WHERE used_at IS NULL AND expires_at < ${NOW} - ${TICKET_LIFETIME_MS} ORDER BY expires_at LIMIT ${rows}) RETURNING 1`,
  );
  // A used ticket has its `expires_at` too, within half a minute of its use: one index serves both.
  await trimUntilDone(
    db,
    (rows) => sql`DELETE FROM ws_tickets WHERE ticket_hash IN (
    SELECT ticket_hash FROM ws_tickets WHERE expires_at < ${NOW} - ${KEEP_USED_MS} ORDER BY expires_at LIMIT ${rows}) RETURNING 1`,
  );
}

function hashOf(ticket: string): Sql {
  return sql`unhex(${createHash("sha256").update(ticket).digest("hex")})`;
}

function expiryOf(row: unknown): { expires_at: number } | undefined {
  return row as { expires_at: number } | undefined;
}
