/**
 * Websocket tickets: 24 random bytes and two marks, stored hashed, valid for 30 seconds and one
 * socket. The first mark binds whose ticket it is, so an edited row opens no socket. A ticket
 * without the last one is rejected without a read of D1. A used ticket leaves a row of
 * `opened_streams`, which says where the credential may have a socket.
 */
import { createHash } from "node:crypto";
import { commitOrThrow, newGroup, NOW } from "../platform/commit.ts";
import { problem, Problem } from "../platform/problem.ts";
import { rowsOf, trimUntilDone } from "../platform/trim.ts";
import {
  all,
  atom,
  batch,
  blob,
  type Expr,
  readUuid,
  select,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import {
  type ActorFacts,
  actorFacts,
  actorFactsOf,
  actorPrecondition,
  actorRejectionOf,
  changedMeanwhile,
} from "./may-write.ts";
import { ask, guardOf, questionOf } from "../platform/preconditions.ts";
import type { Config } from "../platform/config.ts";
import { countDaily, dailyPrecondition, dailyUse } from "../platform/daily-limit.ts";
import { storagePrecondition } from "../platform/storage.ts";
import { optionalUuid } from "../audit/audit.ts";
import { isMark, markOf, type Secret } from "./mark.ts";
import { ipAllowed } from "../http/ip-range.ts";
import { readScopes, scopeMissing, writeScopes } from "./scope.ts";
import type { Actor, Scope } from "../platform/actor.ts";
import { readAddresses } from "./key-seal.ts";

export const TICKET_LIFETIME_MS = 30_000;

const TICKET_RANDOM_BYTES = 24;
const OWNER_MARK_BYTES = 16;
const TICKET_MARK_BYTES = 8;

function newTicket(secret: Secret, actor: Actor): string {
  const random = Buffer.from(crypto.getRandomValues(new Uint8Array(TICKET_RANDOM_BYTES)));
  const content = Buffer.concat([random, markOfOwner(secret, random, actor)]);
  return Buffer.concat([content, markOfTicket(secret, content)]).toString("base64url");
}

function isOwnTicket(secret: Secret, ticket: string): boolean {
  const bytes = Buffer.from(ticket, "base64url");
  const end = TICKET_RANDOM_BYTES + OWNER_MARK_BYTES;
  return isMark(bytes.subarray(end), markOfTicket(secret, bytes.subarray(0, end)));
}

/** Whether an own ticket was issued for what its row says. */
function isTicketOf(secret: Secret, ticket: string, actor: Actor): boolean {
  const bytes = Buffer.from(ticket, "base64url");
  const random = bytes.subarray(0, TICKET_RANDOM_BYTES);
  const mark = bytes.subarray(TICKET_RANDOM_BYTES, TICKET_RANDOM_BYTES + OWNER_MARK_BYTES);
  return isMark(mark, markOfOwner(secret, random, actor));
}

function markOfTicket(secret: Secret, content: Buffer): Buffer {
  return markOf(secret, "websocket tickets v1", content.toString("hex"), TICKET_MARK_BYTES);
}

function markOfOwner(secret: Secret, random: Buffer, actor: Actor): Buffer {
  const { userId, scopes, credential } = actor;
  const of =
    credential.kind === "session"
      ? [credential.epoch, credential.expiresAtMs]
      : [credential.apiKeyId];
  const text = JSON.stringify([random.toString("hex"), userId, writeScopes(scopes), ...of]);
  return markOf(secret, "websocket tickets v1", text, OWNER_MARK_BYTES);
}

/** Issues a ticket. `scopes` is `read` for a session, and the scopes of the key otherwise. */
export async function issueTicket(
  db: D1Database,
  settings: Secret & Pick<Config, "STREAM_DAILY_TICKETS">,
  { actor, scopes }: { actor: Actor; scopes: readonly Scope[] },
): Promise<{ ticket: string; expires_at: string; scopes: Scope[] }> {
  const ticket = newTicket(settings, { ...actor, scopes });
  const { credential } = actor;
  const session = credential.kind === "session" ? credential : undefined;
  const apiKeyId = credential.kind === "api_key" ? credential.apiKeyId : null;
  const group = newGroup();
  const daily = dailyUse(settings, "tickets", actor.userId);
  const checks = (at: Expr) => [
    actorPrecondition(actor, at),
    storagePrecondition,
    dailyPrecondition(daily, at),
  ];
  const mine = sql`ticket_hash = ${hashOf(ticket)}`;
  const rows = await commitOrThrow(db, group, [
    sql`INSERT INTO ws_tickets (ticket_hash, user_id, api_key_id, session_epoch,
        session_expires_at, scopes, expires_at)
      SELECT ${hashOf(ticket)}, ${uuid(actor.userId)}, ${optionalUuid(apiKeyId)},
        ${session?.epoch ?? null}, ${session?.expiresAtMs ?? null}, ${writeScopes(scopes)},
        ${group.at} + ${TICKET_LIFETIME_MS}
      WHERE ${guardOf(checks(group.at))} RETURNING expires_at`,
    countDaily(daily, group.at, sql`EXISTS (SELECT 1 FROM ws_tickets WHERE ${mine})`),
  ]);
  // Read again if D1's response was lost.
  const found = rows?.[0] ?? (await all(db, sql`SELECT expires_at FROM ws_tickets WHERE ${mine}`));
  const row = expiryOf(found[0]);
  if (row === undefined) {
    const why = questionOf({ preconditions: checks(NOW), facts: {}, apart: actorFacts(actor) });
    await ask(db, [why]);
    throw changedMeanwhile();
  }
  return { ticket, expires_at: toWireTime(row.expires_at), scopes: [...scopes] };
}

/** The three last are the key's, and null for a session. */
type TicketRow = ActorFacts & {
  user_id: string;
  api_key_id: string | null;
  session_epoch: number | null;
  session_expires_at: number | null;
  scopes: string;
  allowed_ips: string | null;
  key_expires_at: number | null;
  require_idempotency: number | null;
};

/** The actor of a socket. `expiresAtMs` is when the credential expires, or null for never. */
export type TicketActor = Actor & { readonly expiresAtMs: number | null };

/**
 * Consumes a ticket for one socket on `stream` and checks its credential and user, with one call of
 * D1. `stream` is SQL if it depends on the ticket's user. Throws, in this order: `ticket_invalid`,
 * the 401 of the key or session, `account_frozen`, `ip_not_allowed`, `scope_missing`.
 */
export async function consumeTicket(
  db: D1Database,
  secret: Secret,
  upgrade: { ticket: string; stream: string | Sql; clientIp: string | undefined },
): Promise<TicketActor> {
  const row = isOwnTicket(secret, upgrade.ticket) ? await markUsed(db, upgrade) : undefined;
  const actor = row && actorOf(row);
  if (row === undefined || actor === undefined || !isTicketOf(secret, upgrade.ticket, actor))
    throw problem("ticket_invalid", "The ticket is unknown, used or expired. Request a new one.");
  const rejection = actorRejectionOf(actor, row);
  if (rejection !== undefined) throw new Problem(rejection);
  // A session's row has no key, so any address may use it.
  const allowedIps = row.allowed_ips === null ? null : readAddresses(row.allowed_ips);
  if (!ipAllowed(upgrade.clientIp, allowedIps))
    throw problem("ip_not_allowed", "Your IP address is not in this key's allow list.");
  if (!actor.scopes.includes("read")) throw scopeMissing("read", actor.scopes);
  const { credential } = actor;
  const expiresAtMs = credential.kind === "session" ? credential.expiresAtMs : row.key_expires_at;
  return { ...actor, expiresAtMs };
}

/** An upgrade that has just begun may not be registered as a subscriber yet. */
const UPGRADE_MS = 60_000;

/** The stream is noted before its object accepts the socket, so that no socket is missing there. */
async function markUsed(
  db: D1Database,
  { ticket, stream }: { ticket: string; stream: string | Sql },
): Promise<TicketRow | undefined> {
  const hash = hashOf(ticket);
  const valid = sql`FROM ws_tickets
    WHERE ticket_hash = ${hash} AND used_at IS NULL AND expires_at > ${NOW}`;
  const facts = actorFactsOf({ user: atom("t.user_id"), key: atom("t.api_key_id") });
  const [, , used, found] = await batch<TicketRow>(db, [
    sql`DELETE FROM opened_streams WHERE user_id = (SELECT user_id ${valid})
      AND opened_at < ${NOW} - ${UPGRADE_MS}
      AND NOT EXISTS (SELECT 1 FROM stream_subscribers r WHERE r.name = opened_streams.stream)`,
    sql`INSERT INTO opened_streams (user_id, opener, stream, opened_at)
      SELECT user_id, coalesce(api_key_id, user_id), ${stream}, ${NOW} ${valid}
      ON CONFLICT (user_id, opener, stream) DO UPDATE SET opened_at = excluded.opened_at`,
    sql`UPDATE ws_tickets SET used_at = ${NOW}
      WHERE ticket_hash IN (SELECT ticket_hash ${valid}) RETURNING 1`,
    sql`SELECT hex(t.user_id) AS user_id,
        iif(t.api_key_id IS NULL, NULL, hex(t.api_key_id)) AS api_key_id,
        t.session_epoch, t.session_expires_at, t.scopes, ${select(facts)},
        k.allowed_ips, k.expires_at AS key_expires_at, k.require_idempotency
      FROM ws_tickets t LEFT JOIN api_keys k ON k.api_key_id = t.api_key_id
      WHERE t.ticket_hash = ${hash}`,
  ]);
  return used?.length === 1 ? found?.[0] : undefined;
}

/** Makes a ticket valid again, because the stream refused its socket. */
export async function giveBackTicket(db: D1Database, ticket: string): Promise<void> {
  await all(db, sql`UPDATE ws_tickets SET used_at = NULL WHERE ticket_hash = ${hashOf(ticket)}`);
}

function actorOf(row: TicketRow): Actor {
  const credential: Actor["credential"] =
    row.api_key_id === null
      ? {
          kind: "session",
          issuedAtMs: 0,
          epoch: row.session_epoch ?? -1,
          expiresAtMs: row.session_expires_at ?? 0,
        }
      : {
          kind: "api_key",
          apiKeyId: readUuid(row.api_key_id),
          ...(row.require_idempotency === 1 && { requireIdempotency: true }),
        };
  return { userId: readUuid(row.user_id), scopes: readScopes(row.scopes), credential };
}

/** Every deployment closes all sockets, so none is as old as this. */
const KEEP_OPENED_MS = 7 * 86_400_000;

/** Cron task: deletes expired tickets, and notes of streams whose sockets must have closed. */
export async function trimTickets(db: D1Database): Promise<void> {
  const expired = sql`WHERE expires_at < ${NOW} - ${TICKET_LIFETIME_MS} ORDER BY expires_at`;
  const closed = sql`WHERE opened_at < ${NOW} - ${KEEP_OPENED_MS} ORDER BY opened_at`;
  await trimUntilDone(
    db,
    rowsOf("ws_tickets", "ticket_hash", expired),
    rowsOf("opened_streams", "rowid", closed),
  );
}

function hashOf(ticket: string): Expr {
  return blob(createHash("sha256").update(ticket).digest("hex"));
}

function expiryOf(row: unknown): { expires_at: number } | undefined {
  return row as { expires_at: number } | undefined;
}
