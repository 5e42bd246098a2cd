/** Mints, lists and revokes API keys. A secret is returned once and stored sealed. */
import { z } from "@hono/zod-openapi";
import { and, desc, eq } from "drizzle-orm";
import { type Group, NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import {
  afterCursor,
  fetchCount,
  type Page,
  pageOf,
  type PageQuery,
  type TimeId,
} from "../http/cursor.ts";
import { described } from "../http/fields.ts";
import { problem, Problem } from "../platform/problem.ts";
import { type Expr, expr, first, raw, type Sql, sql, TRUE, uuid } from "../platform/sql.ts";
import { trimUntilDone } from "../platform/trim.ts";
import { toWireTime, toWireTimeOrNull } from "../platform/time.ts";
import { actorFacts, actorPrecondition, actorRejection, mayWrite } from "./may-write.ts";
import { countDaily, dailyPrecondition, type DailyUse, dailyUse } from "../platform/daily-limit.ts";
import { ask, guardOf, type Precondition, questionOf } from "../platform/preconditions.ts";
import { storagePrecondition } from "../platform/storage.ts";
import { type AuditActor, type AuditRecord, commitAudited, recordOf } from "./audit.ts";
import { forgetCredentials } from "./credential-cache.ts";
import { KEY_APPROVAL_MS } from "./approve-key.ts";
import { newKeyId } from "./key-id.ts";
import { type KeyLimits, KeyLimitsOut, limitsView, writeLimits } from "./key-limits.ts";
import { scopeMissing } from "./permit.ts";
import { sessionsMayTrade } from "./policy.ts";
import { capScopes, writeScopes } from "./scope.ts";
import { checkSecondFactor } from "./second-factor.ts";
import { sealKey } from "./key-seal.ts";
import { apiKeys } from "./tables.ts";
import { type Actor, type Scope, SCOPES, type SessionActor } from "../platform/actor.ts";
import { read } from "../platform/read.ts";

/** Limit of one user's keys that are neither revoked nor expired, including the operator's. */
export const MAX_KEYS_PER_USER = 100;

/** Limit of one user's keys that wait for the operator's approval. */
const MAX_WAITING_KEYS = 5;

export const KeyRecord = z
  .object({
    api_key_id: described(z.uuid(), "Id of the key, sent in the header APIKEY"),
    label: described(z.string(), "Name of the key, chosen when it was minted"),
    scopes: described(z.array(z.enum(SCOPES)), "Scopes of the key"),
    created_at: described(z.iso.datetime(), "When the key was minted"),
    expires_at: described(z.iso.datetime().nullable(), "When the key expires. Null: never."),
    allowed_ips: described(
      z.array(z.string()).nullable(),
      "IP addresses and CIDR ranges that may use the key. Null: any.",
    ),
    last_used_at: described(
      z.iso.datetime().nullable(),
      "When the key was last used. May lag by a minute. Null: never.",
    ),
    revoked_at: described(
      z.iso.datetime().nullable(),
      "When the key was revoked. Null if it is not revoked.",
    ),
    minted_by: described(
      z.enum(["session", "operator"]),
      "Who minted the key. An operator's key has its scopes only after a delay.",
    ),
    limits: KeyLimitsOut,
    require_idempotency: described(
      z.boolean(),
      "Whether requests and quotes that the key signs need `idempotency_key` in the body",
    ),
    active_from: described(
      z.iso.datetime().nullable(),
      "From when the key has its scopes. Null until the operator has approved it.",
    ),
    approved_at: described(
      z.iso.datetime().nullable(),
      "When the operator approved the key. Null if it needed no approval or has none yet.",
    ),
  })
  .openapi("ApiKey");
export const MintedKey = KeyRecord.extend({
  secret: described(z.string(), "Secret that signs requests. No later response contains it."),
}).openapi("MintedApiKey");
export type KeyRecord = z.input<typeof KeyRecord>;
export type MintedKey = z.input<typeof MintedKey>;

export type NewKey = {
  readonly label: string;
  readonly scopes: readonly Scope[];
  readonly expiresAt: number | null;
  readonly allowedIps: readonly string[] | null;
  readonly limits: KeyLimits | null;
  readonly requireIdempotency: boolean;
};

/**
 * Mints a key of the session's user. It gets the requested scopes that the session has. If TOTP is
 * on, a key with more than `read` takes a code.
 */
export async function mintApiKey(
  db: D1Database,
  settings: Config,
  minting: {
    actor: SessionActor;
    ip: string | undefined;
    key: NewKey;
    totpCode?: string | undefined;
    /** The key may withdraw, and has no scopes until the operator has approved it. */
    requestApproval?: boolean;
  },
): Promise<MintedKey> {
  const { actor, key, requestApproval = false } = minting;
  const held: readonly Scope[] = requestApproval ? [...actor.scopes, "withdraw"] : actor.scopes;
  const scopes = capScopes(key.scopes, held);
  const [requested] = capScopes(key.scopes, SCOPES);
  if (scopes.length === 0 && requested !== undefined) throw scopeMissing(requested, actor.scopes);
  if (scopes.some((scope) => scope !== "read"))
    await checkSecondFactor(db, settings, {
      userId: actor.userId,
      clientIp: minting.ip,
      codes: { totp_code: minting.totpCode },
      actor: "session",
    });
  const daily = dailyUse(settings, "api_keys", actor.userId);
  const checks = (at: Expr) => [
    actorPrecondition(actor, at),
    ...(scopes.includes("trade") ? [sessionTrades(actor, at)] : []),
    storagePrecondition,
    belowKeyLimit(actor.userId, at),
    ...(requestApproval ? [belowWaitingLimit(actor.userId, at)] : []),
    dailyPrecondition(daily, at),
  ];
  const minted = await insertKey(db, settings, {
    userId: actor.userId,
    key: { ...key, scopes },
    mintedBy: "session",
    delayMs: requestApproval ? null : 0,
    record: (apiKeyId) =>
      recordOf(actor, "api_key_created", { ip: minting.ip, subjectId: apiKeyId }),
    allowed: (at) => guardOf(checks(at)),
    daily,
  });
  if (minted !== undefined) return minted;
  const why = questionOf({ preconditions: checks(NOW), facts: {}, apart: actorFacts(actor) });
  await ask(db, [why]);
  throw new Error("the guard did not apply, but its preconditions hold");
}

/**
 * Mints a key of any scope for the operator. It has no scopes until AUTH_OPERATOR_KEY_DELAY_SECS
 * have passed, so that the user can see and revoke it before. `alongside` returns further
 * statements of the same commit group, such as an event of the account stream.
 */
export async function createOperatorApiKey(
  db: D1Database,
  settings: Config,
  request: {
    userId: string;
    operator: string;
    key: NewKey;
    alongside?: (group: Group, applied: Sql, apiKeyId: string) => readonly Sql[];
  },
): Promise<MintedKey> {
  const actor: AuditActor = `operator:${request.operator}`;
  const minted = await insertKey(db, settings, {
    userId: request.userId,
    key: { ...request.key, scopes: capScopes(request.key.scopes, SCOPES) },
    mintedBy: "operator",
    delayMs: settings.AUTH_OPERATOR_KEY_DELAY_SECS * 1_000,
    record: (apiKeyId) => ({
      kind: "api_key_created",
      actor,
      userId: request.userId,
      apiKeyId: null,
      ip: null,
      subjectId: apiKeyId,
    }),
    allowed: (at) => expr`EXISTS (SELECT 1 FROM users WHERE user_id = ${uuid(request.userId)})
      AND ${belowKeyLimit(request.userId, at).expr}`,
    ...(request.alongside === undefined ? {} : { alongside: request.alongside }),
  });
  if (minted === undefined) throw tooManyKeys();
  return minted;
}

type Insertion = {
  userId: string;
  key: NewKey;
  mintedBy: "session" | "operator";
  /** Until the key has its scopes. Null: it waits for approval. */
  delayMs: number | null;
  record: (apiKeyId: string) => AuditRecord;
  allowed: (at: Expr) => Expr;
  /** The daily limit that the key counts for. An operator's key counts for none. */
  daily?: DailyUse;
  alongside?: (group: Group, applied: Sql, apiKeyId: string) => readonly Sql[];
};

async function insertKey(
  db: D1Database,
  settings: Config,
  insertion: Insertion,
): Promise<MintedKey | undefined> {
  const { userId, key } = insertion;
  const apiKeyId = newKeyId(settings);
  const secret = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url");
  const scopes = writeScopes(key.scopes);
  const allowedIps = key.allowedIps === null ? null : JSON.stringify(key.allowedIps);
  const limits = key.limits === null ? null : writeLimits(key.limits);
  // The seal binds the instant, so it is read before the commit.
  const now = await first<{ now: number }>(db, sql`SELECT ${NOW} AS now`);
  const activeFrom =
    insertion.delayMs === null ? null : (now?.now ?? Date.now()) + insertion.delayMs;
  const box = await sealKey(settings.MASTER_KEYS, secret, {
    apiKeyId,
    userId,
    scopes,
    limits,
    requireIdempotency: key.requireIdempotency ? 1 : 0,
    allowedIps,
    activeFrom,
    expiresAt: key.expiresAt,
    mintedBy: insertion.mintedBy,
  });
  const applied = await commitAudited(db, {
    record: insertion.record(apiKeyId),
    when: ({ at }) => insertion.allowed(at),
    statements: (group, written) => [
      sql`INSERT INTO api_keys (api_key_id, user_id, label, scopes, secret_sealed, master_key_id,
          allowed_ips, limits, require_idempotency, minted_by, active_from, created_at, expires_at)
        SELECT ${uuid(apiKeyId)}, ${uuid(userId)}, ${key.label}, ${scopes},
          ${box.sealed}, ${box.masterKeyId}, ${allowedIps}, ${limits}, ${key.requireIdempotency},
          ${insertion.mintedBy},
          ${activeFrom}, ${group.at}, ${key.expiresAt}
        WHERE ${written}`,
      ...(insertion.daily === undefined ? [] : [countDaily(insertion.daily, group.at, written)]),
      ...(insertion.alongside?.(group, written, apiKeyId) ?? []),
    ],
  });
  if (!applied) return undefined;
  const record = await findKey(db, { apiKeyId, userId });
  if (record === undefined) throw new Error("the new API key is missing");
  return { ...record, secret };
}

/** The session's scopes may be a few seconds old. */
function sessionTrades(actor: SessionActor, at: Expr): Precondition<unknown, never> {
  return {
    expr: sessionsMayTrade(uuid(actor.userId), at),
    reject: () => {
      throw scopeMissing("trade", ["read"]);
    },
  };
}

function belowKeyLimit(userId: string, at: Expr): Precondition<unknown, never> {
  return {
    expr: expr`(SELECT count(*) FROM api_keys INDEXED BY api_keys_live
      WHERE user_id = ${uuid(userId)} AND revoked_at IS NULL
        AND (expires_at IS NULL OR expires_at > ${at})) < ${MAX_KEYS_PER_USER}`,
    reject: () => {
      throw tooManyKeys();
    },
  };
}

function belowWaitingLimit(userId: string, at: Expr): Precondition<unknown, never> {
  return {
    expr: expr`(SELECT count(*) FROM api_keys INDEXED BY api_keys_live
      WHERE user_id = ${uuid(userId)} AND revoked_at IS NULL AND active_from IS NULL
        AND created_at > ${at} - ${KEY_APPROVAL_MS}) < ${MAX_WAITING_KEYS}`,
    reject: () => {
      throw problem(
        "api_key_limit",
        `${MAX_WAITING_KEYS} API keys wait for approval, which is the limit. Revoke one first.`,
      );
    },
  };
}

function tooManyKeys(): Problem {
  return problem(
    "api_key_limit",
    `You have reached the limit of ${MAX_KEYS_PER_USER} API keys. Revoke one first.`,
  );
}

/** The columns that a key's owner sees: never its secret. */
const SHOWN = {
  apiKeyId: apiKeys.apiKeyId,
  label: apiKeys.label,
  scopes: apiKeys.scopes,
  createdAt: apiKeys.createdAt,
  expiresAt: apiKeys.expiresAt,
  allowedIps: apiKeys.allowedIps,
  lastUsedAt: apiKeys.lastUsedAt,
  revokedAt: apiKeys.revokedAt,
  mintedBy: apiKeys.mintedBy,
  limits: apiKeys.limits,
  requireIdempotency: apiKeys.requireIdempotency,
  activeFrom: apiKeys.activeFrom,
  approvedAt: apiKeys.approvedAt,
};
type Row = Pick<typeof apiKeys.$inferSelect, keyof typeof SHOWN>;

export async function listApiKeys(
  db: D1Database,
  userId: string,
  page: PageQuery<TimeId>,
): Promise<Page<KeyRecord>> {
  const older = afterCursor(page, { at: apiKeys.createdAt, id: apiKeys.apiKeyId });
  const rows = await read(db, ({ select }) =>
    select(SHOWN)
      .from(apiKeys)
      .where(and(eq(apiKeys.userId, userId), older))
      .orderBy(desc(apiKeys.createdAt), desc(apiKeys.apiKeyId))
      .limit(fetchCount(page)),
  );
  return pageOf(page, rows, toRecord, (row) => ({ at: row.createdAt, id: row.apiKeyId }));
}

async function findKey(
  db: D1Database,
  key: { apiKeyId: string; userId: string },
): Promise<KeyRecord | undefined> {
  const [row] = await read(db, ({ select }) =>
    select(SHOWN)
      .from(apiKeys)
      .where(and(eq(apiKeys.apiKeyId, key.apiKeyId), eq(apiKeys.userId, key.userId))),
  );
  return row === undefined ? undefined : toRecord(row);
}

/** The user that a key belongs to. Undefined if there is no such key. */
export async function ownerOfKey(db: D1Database, apiKeyId: string): Promise<string | undefined> {
  const [key] = await read(db, ({ select }) =>
    select({ userId: apiKeys.userId }).from(apiKeys).where(eq(apiKeys.apiKeyId, apiKeyId)),
  );
  return key?.userId;
}

function toRecord(row: Row): KeyRecord {
  return {
    api_key_id: row.apiKeyId,
    label: row.label,
    scopes: [...row.scopes],
    created_at: toWireTime(row.createdAt),
    expires_at: toWireTimeOrNull(row.expiresAt),
    allowed_ips: row.allowedIps === null ? null : [...row.allowedIps],
    last_used_at: toWireTimeOrNull(row.lastUsedAt),
    revoked_at: toWireTimeOrNull(row.revokedAt),
    minted_by: row.mintedBy,
    limits: row.limits === null ? null : limitsView(row.limits),
    require_idempotency: row.requireIdempotency,
    active_from: toWireTimeOrNull(row.activeFrom),
    approved_at: toWireTimeOrNull(row.approvedAt),
  };
}

/**
 * Revokes a key of the actor's user. A session can revoke any of them, a key only itself.
 * Idempotent. Throws `api_key_unknown_id` for the key of another user.
 */
export async function revokeOwnApiKey(
  db: D1Database,
  request: { actor: Actor; apiKeyId: string; ip: string | undefined },
): Promise<KeyRecord> {
  const { actor, apiKeyId } = request;
  const { credential } = actor;
  if (credential.kind === "api_key" && credential.apiKeyId !== apiKeyId) {
    throw problem(
      "session_required",
      "An API key can revoke only itself. Use a session to revoke another key.",
    );
  }
  // A key may revoke itself before it has its scopes, so `mayWrite` would be too strict for it.
  const allowed = (at: Expr) =>
    credential.kind === "session"
      ? mayWrite(actor, at)
      : expr`EXISTS (
          SELECT 1 FROM users WHERE user_id = ${uuid(actor.userId)} AND frozen_at IS NULL)`;
  const record = recordOf(actor, "api_key_revoked", { ip: request.ip, subjectId: apiKeyId });
  const applied = await revoke(db, { userId: actor.userId, apiKeyId, record, allowed });
  if (!applied && credential.kind === "session") {
    const rejection = await actorRejection(db, actor);
    if (rejection !== undefined) throw new Problem(rejection);
  }
  const key = await findKey(db, { apiKeyId, userId: actor.userId });
  if (key === undefined) throw problem("api_key_unknown_id", "You have no API key with this id.");
  return key;
}

/** Revokes a key for the operator. False if the key is unknown or already revoked. */
export async function revokeApiKey(
  db: D1Database,
  request: { apiKeyId: string; operator: string },
): Promise<boolean> {
  const userId = await ownerOfKey(db, request.apiKeyId);
  if (userId === undefined) return false;
  const actor: AuditActor = `operator:${request.operator}`;
  const record: AuditRecord = {
    kind: "api_key_revoked",
    actor,
    userId,
    apiKeyId: null,
    ip: null,
    subjectId: request.apiKeyId,
  };
  return revoke(db, { userId, apiKeyId: request.apiKeyId, record, allowed: () => TRUE });
}

async function revoke(
  db: D1Database,
  request: { userId: string; apiKeyId: string; record: AuditRecord; allowed: (at: Expr) => Expr },
): Promise<boolean> {
  const key = sql`api_key_id = ${uuid(request.apiKeyId)} AND user_id = ${uuid(request.userId)}
    AND revoked_at IS NULL`;
  const applied = await commitAudited(db, {
    record: request.record,
    when: ({ at }) => sql`${request.allowed(at)} AND EXISTS (SELECT 1 FROM api_keys WHERE ${key})`,
    statements: ({ at }, written) => [
      sql`UPDATE api_keys SET revoked_at = ${at} WHERE ${key} AND ${written}`,
    ],
  });
  forgetCredentials({ userId: request.userId, apiKeyIds: [request.apiKeyId] });
  return applied;
}

/** How long a key that was revoked or has expired is listed. */
const KEEP_ENDED_MS = 30 * 86_400_000;

/** Cron task: deletes keys that ended long ago. Their audit events stay. */
export async function trimApiKeys(db: D1Database): Promise<void> {
  await trimUntilDone(
    db,
    (rows) => sql`DELETE FROM api_keys WHERE api_key_id IN (
      SELECT api_key_id FROM api_keys INDEXED BY api_keys_waiting
      WHERE active_from IS NULL AND created_at <= ${NOW} - ${KEY_APPROVAL_MS}
      ORDER BY created_at LIMIT ${rows}) RETURNING 1`,
  );
  const ended = ["revoked", "expires"] as const;
  for (const end of ended) {
    const at = raw(`${end}_at`);
    await trimUntilDone(
      db,
      (rows) => sql`DELETE FROM api_keys WHERE api_key_id IN (
      SELECT api_key_id FROM api_keys WHERE ${at} < ${NOW} - ${KEEP_ENDED_MS}
      ORDER BY ${at} LIMIT ${rows}) RETURNING 1`,
    );
  }
}

/** Whether an instant is in the future of D1's clock, which also decides when a key expires. */
export async function isFuture(db: D1Database, unixMs: number): Promise<boolean> {
  const row = await first<{ future: number }>(db, sql`SELECT ${unixMs} > ${NOW} AS future`);
  return row?.future === 1;
}
