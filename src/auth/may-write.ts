/**
 * The precondition that an actor may make a change. Every guard contains it, because the credential
 * cache may be a few seconds old.
 */
import { and, eq } from "drizzle-orm";
import type { Precondition } from "../platform/preconditions.ts";
import { Problem, type ProblemData } from "../platform/problem.ts";
import { type Expr, expr, sql, uuid } from "../platform/sql.ts";
import { NOW } from "../platform/commit.ts";
import { toWireTime } from "../platform/time.ts";
import type { Actor } from "../platform/actor.ts";
import { apiKeys, users } from "./tables.ts";
import { fragment, read } from "../platform/read.ts";

/** Guard condition: at the group's instant, the user is not frozen and the credential is valid. */
export function mayWrite(actor: Actor, at: Expr): Expr {
  const { credential } = actor;
  const user = sql`SELECT 1 FROM users WHERE user_id = ${uuid(actor.userId)} AND frozen_at IS NULL`;
  if (credential.kind === "session") {
    return expr`EXISTS (${user} AND session_epoch = ${credential.epoch})
      AND ${at} < ${credential.expiresAtMs}`;
  }
  return expr`EXISTS (${user}) AND EXISTS (SELECT 1 FROM api_keys
    WHERE api_key_id = ${uuid(credential.apiKeyId)} AND user_id = ${uuid(actor.userId)}
      AND revoked_at IS NULL AND active_from <= ${at}
      AND (expires_at IS NULL OR expires_at > ${at}))`;
}

/** The precondition of every write of the actor. Its rejection throws the reason. */
export function actorPrecondition(actor: Actor, at: Expr): Precondition<unknown, never> {
  return {
    expr: mayWrite(actor, at),
    reject: async (_, db) => {
      const rejection = await actorRejection(db, actor);
      if (rejection !== undefined) throw new Problem(rejection);
      return undefined;
    },
  };
}

/** Why `mayWrite` is false, in the order of contract.md section 2. Undefined if it is true. */
export async function actorRejection(
  db: D1Database,
  actor: Actor,
): Promise<ProblemData | undefined> {
  const { credential } = actor;
  const keyId = credential.kind === "api_key" ? credential.apiKeyId : "";
  const key = and(eq(apiKeys.apiKeyId, keyId), eq(apiKeys.userId, users.userId));
  const [row] = await read(db, ({ select }) =>
    select({
      frozen: users.frozenAt,
      epoch: users.sessionEpoch,
      revoked: apiKeys.revokedAt,
      expires: apiKeys.expiresAt,
      active: apiKeys.activeFrom,
      now: fragment(NOW).mapWith(Number),
    })
      .from(users)
      .leftJoin(apiKeys, key)
      .where(eq(users.userId, actor.userId)),
  );
  if (row === undefined)
    return { code: "session_invalid", detail: "The user of this credential does not exist." };
  if (credential.kind === "session") {
    if (row.epoch !== credential.epoch)
      return { code: "session_invalid", detail: "The session has ended." };
    if (row.now >= credential.expiresAtMs)
      return { code: "session_expired", detail: "The session has expired." };
  } else {
    if (row.active === null) return { code: "api_key_unknown", detail: "No such API key." };
    if (row.revoked !== null)
      return { code: "api_key_revoked", detail: "The API key has been revoked." };
    if (row.expires !== null && row.expires <= row.now)
      return { code: "api_key_expired", detail: "The API key has expired." };
  }
  if (row.frozen !== null)
    return { code: "account_frozen", detail: "The account is frozen. Contact the operator." };
  if (row.active !== null && row.active > row.now) {
    return {
      code: "scope_missing",
      detail: `The operator's key has its scopes from ${toWireTime(row.active)}.`,
    };
  }
  return undefined;
}
