/** Mints API keys. A secret is returned once and stored sealed. */
import * as z from "zod";
import { NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { described } from "../http/fields.ts";
import { Problem } from "../platform/problem.ts";
import { type Expr, expr, holds, scalar, sql, uuid } from "../platform/sql.ts";
import { actorFacts, actorPrecondition, changedMeanwhile } from "./may-write.ts";
import { countDaily, dailyPrecondition, type DailyUse, dailyUse } from "../platform/daily-limit.ts";
import {
  ask,
  guardOf,
  type Precondition,
  questionOf,
  required,
} from "../platform/preconditions.ts";
import { storagePrecondition } from "../platform/storage.ts";
import { findKey, KeyRecord } from "./api-key.ts";
import { commitAudited, recordBy, recordOf } from "../audit/audit.ts";
import { KEY_APPROVAL_MS } from "./approve-key.ts";
import { holdMsOf } from "./hold.ts";
import { newKeyId } from "./mark.ts";
import { type KeyLimits, writeLimits } from "./key-limits.ts";
import { sessionsMayTrade } from "./policy.ts";
import { capScopes, scopeMissing, writeScopes } from "./scope.ts";
import { confirmOwner } from "./step-up.ts";
import { type KeyRights, sealKey } from "./key-seal.ts";
import { type Scope, SCOPES, type SessionActor, unheld } from "../platform/actor.ts";

/** Limit of one user's keys that are neither revoked nor expired, including the operator's. */
export const MAX_KEYS_PER_USER = 100;

/** Life of a key whose caller states none. A longer one takes step-up. */
export const DEFAULT_KEY_LIFE_MS = 90 * 86_400_000;

/** Limit of one user's keys that wait for the operator's approval, or for their delay. */
const MAX_WAITING_KEYS = 5;

export const MintedKey = KeyRecord.and(
  z.object({
    secret: described(z.string(), "Secret that signs requests. No later response contains it."),
  }),
).meta({ id: "MintedApiKey" });
export type MintedKey = z.input<typeof MintedKey>;

export type NewKey = {
  readonly label: string;
  readonly scopes: readonly Scope[];
  /** Null: never. Omitted: after `DEFAULT_KEY_LIFE_MS`. */
  readonly expiresAt?: number | null | undefined;
  readonly allowedIps: readonly string[] | null;
  readonly limits: KeyLimits | null;
  readonly requireIdempotency: boolean;
};

type Minting = {
  readonly actor: SessionActor;
  readonly ip: string | undefined;
  readonly key: NewKey;
  readonly password?: string | undefined;
  readonly totpCode?: string | undefined;
  /** The key may withdraw, and has no scopes until the operator has approved it. */
  readonly requestApproval?: boolean;
};

/**
 * Mints a key of the session's user. It gets the requested scopes that the session has. A key with
 * more than `read`, or one that outlives `DEFAULT_KEY_LIFE_MS`, takes the password unless the
 * session is fresh, and a code if TOTP is on.
 */
export async function mintApiKey(
  db: D1Database,
  settings: Config,
  minting: Minting,
): Promise<MintedKey> {
  const { key, requestApproval = false } = minting;
  const session = unheld(minting.actor);
  const granted = session.scopes;
  const held: readonly Scope[] = requestApproval ? [...granted, "withdraw"] : granted;
  const scopes = capScopes(key.scopes, held);
  const [requested] = capScopes(key.scopes, SCOPES);
  if (scopes.length === 0 && requested !== undefined) throw scopeMissing(requested, granted);
  const { expiresAt = 0 } = key;
  const outlives = expiresAt === null || expiresAt > Date.now() + DEFAULT_KEY_LIFE_MS;
  const actor =
    outlives || scopes.some((scope) => scope !== "read")
      ? await confirmOwner(db, settings, {
          actor: session,
          fields: { password: minting.password, totp_code: minting.totpCode },
          clientIp: minting.ip,
        })
      : session;
  // The guard checks that TOTP is still on (`checkedTotp`).
  const approvesItself =
    key.limits?.paysTo !== undefined &&
    settings.AUTH_LISTED_KEYS === "on" &&
    (actor.credential.checkedTotp ?? null) !== null;
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
    delayMs: approvesItself ? holdMsOf(settings) : requestApproval ? null : 0,
    record: (apiKeyId) =>
      recordOf(actor, "api_key_created", { ip: minting.ip, subjectId: apiKeyId }),
    allowed: (at) => guardOf(checks(at)),
    daily,
  });
  if (minted !== undefined) return minted;
  const why = questionOf({ preconditions: checks(NOW), facts: {}, apart: actorFacts(actor) });
  await ask(db, [why]);
  throw changedMeanwhile();
}

/** Scopes that the operator's keys can have. A key that withdraws is asked for by its user. */
export const OPERATOR_KEY_SCOPES = ["read", "trade"] as const satisfies readonly Scope[];
export type OperatorKeyScope = (typeof OPERATOR_KEY_SCOPES)[number];

/** The key has no scopes for AUTH_OPERATOR_KEY_DELAY_SECS, so that the user can revoke it. */
export async function createOperatorApiKey(
  db: D1Database,
  settings: Config,
  request: {
    userId: string;
    operator: string;
    key: NewKey & { readonly scopes: readonly OperatorKeyScope[] };
  },
): Promise<MintedKey> {
  const { userId } = request;
  const minted = await insertKey(db, settings, {
    userId,
    key: { ...request.key, scopes: capScopes(request.key.scopes, OPERATOR_KEY_SCOPES) },
    mintedBy: "operator",
    delayMs: settings.AUTH_OPERATOR_KEY_DELAY_SECS * 1_000,
    record: (subjectId) =>
      recordBy(`operator:${request.operator}`, "api_key_created", { userId, subjectId }),
    allowed: (at) => expr`EXISTS (SELECT 1 FROM users WHERE user_id = ${uuid(userId)})
      AND ${belowKeyLimit(userId, at).expr}`,
  });
  if (minted === undefined) throw new Problem(TOO_MANY_KEYS);
  return minted;
}

type Insertion = {
  userId: string;
  key: NewKey;
  mintedBy: "session" | "operator";
  /** Until the key has its scopes. Null: it waits for approval. */
  delayMs: number | null;
  record: (apiKeyId: string) => ReturnType<typeof recordBy<"api_key_created">>;
  allowed: (at: Expr) => Expr;
  /** The daily limit that the key counts for. An operator's key counts for none. */
  daily?: DailyUse;
};

async function insertKey(
  db: D1Database,
  settings: Config,
  insertion: Insertion,
): Promise<MintedKey | undefined> {
  const { userId, key } = insertion;
  const apiKeyId = newKeyId(settings);
  const secret = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url");
  // The seal binds the instant, so it is read before the commit.
  const mintedAt = await scalar<number>(db, NOW);
  const activeFrom = insertion.delayMs === null ? null : mintedAt + insertion.delayMs;
  const { expiresAt = mintedAt + DEFAULT_KEY_LIFE_MS } = key;
  const rights: KeyRights = {
    scopes: writeScopes(key.scopes),
    limits: key.limits === null ? null : writeLimits(key.limits),
    requireIdempotency: key.requireIdempotency ? 1 : 0,
    allowedIps: key.allowedIps === null ? null : JSON.stringify(key.allowedIps),
    activeFrom,
    expiresAt,
    mintedBy: insertion.mintedBy,
  };
  const box = await sealKey(settings.MASTER_KEYS, secret, { apiKeyId, userId, ...rights });
  const applied = await commitAudited(db, {
    record: insertion.record(apiKeyId),
    when: ({ at }) => insertion.allowed(at),
    statements: (group, written) => [
      sql`INSERT INTO api_keys (api_key_id, user_id, label, scopes, secret_sealed, master_key_id,
          allowed_ips, limits, require_idempotency, minted_by, active_from, created_at, expires_at)
        SELECT ${uuid(apiKeyId)}, ${uuid(userId)}, ${key.label}, ${rights.scopes},
          ${box.sealed}, ${box.masterKeyId}, ${rights.allowedIps}, ${rights.limits},
          ${rights.requireIdempotency}, ${rights.mintedBy}, ${activeFrom}, ${group.at}, ${expiresAt}
        WHERE ${written}`,
      ...(insertion.daily === undefined ? [] : [countDaily(insertion.daily, group.at, written)]),
    ],
  });
  if (!applied) return undefined;
  const record = await findKey(db, { apiKeyId, userId });
  if (record === undefined) throw new Error("the new API key is missing");
  return { ...record, secret };
}

/** The session's scopes may be a few seconds old. */
function sessionTrades(actor: SessionActor, at: Expr): Precondition<unknown, never> {
  const allowed = sessionsMayTrade(uuid(actor.userId), at);
  return required(allowed, () => scopeMissing("trade", ["read"]).data);
}

function belowKeyLimit(userId: string, at: Expr): Precondition<unknown, never> {
  const below = expr`(SELECT count(*) FROM api_keys INDEXED BY api_keys_live
    WHERE user_id = ${uuid(userId)} AND revoked_at IS NULL
      AND (expires_at IS NULL OR expires_at > ${at})) < ${MAX_KEYS_PER_USER}`;
  return required(below, () => TOO_MANY_KEYS);
}

function belowWaitingLimit(userId: string, at: Expr): Precondition<unknown, never> {
  const below = expr`(SELECT count(*) FROM api_keys INDEXED BY api_keys_live
    WHERE user_id = ${uuid(userId)} AND revoked_at IS NULL AND (active_from > ${at}
      OR active_from IS NULL AND created_at > ${at} - ${KEY_APPROVAL_MS})) < ${MAX_WAITING_KEYS}`;
  return required(below, () => ({
    code: "api_key_limit",
    detail: `${MAX_WAITING_KEYS} API keys wait for their scopes, which is the limit. Revoke one first.`,
  }));
}

const TOO_MANY_KEYS = {
  code: "api_key_limit",
  detail: `You have reached the limit of ${MAX_KEYS_PER_USER} API keys. Revoke one first.`,
} as const;

/** Whether an instant is in the future of D1's clock, which also decides when a key expires. */
export function isFuture(db: D1Database, unixMs: number): Promise<boolean> {
  return holds(db, sql`${unixMs} > ${NOW}`);
}
