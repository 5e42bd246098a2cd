/** The precondition of every write, because the credential cache may be a few seconds old. */
import type { Precondition } from "../platform/preconditions.ts";
import { Problem, type ProblemData, unavailable } from "../platform/problem.ts";
import {
  all,
  and,
  atom,
  type Columns,
  type Expr,
  expr,
  jsonObject,
  jsonText,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import type { CommandRow } from "../platform/command-rows.ts";
import { NOW } from "../platform/commit.ts";
import { toWireTime } from "../platform/time.ts";
import { CODE_INVALID, CODE_REQUIRED, totpUnchanged } from "./totp-secret.ts";
import { accountFrozen, FROZEN_BY, type FrozenBy, holdUntil, securityHold } from "./hold.ts";
import type { Actor } from "../platform/actor.ts";

/**
 * Guard condition: at the group's instant, the user is not frozen and the credential is valid. TOTP
 * of a `CheckedActor` is as it was checked. There is no security hold on an `unheld` one.
 */
export function mayWrite(actor: Actor, at: Expr): Expr {
  const { userId, credential } = actor;
  const user = uuid(userId);
  if (credential.kind === "api_key")
    return keyMayWrite({ user, key: uuid(credential.apiKeyId) }, at);
  const { epoch, expiresAtMs, checkedTotp, unheld } = credential;
  const session = { user, epoch: atom("?", [epoch]), expiresAt: atom("?", [expiresAtMs]) };
  return and([
    sessionMayWrite(session, at),
    ...(checkedTotp === undefined ? [] : [totpUnchanged({ userId, checkedTotp }, at)]),
    ...(unheld === undefined ? [] : [expr`${holdUntil(user, at)} <= ${at}`]),
  ]);
}

/** The fields of a command row that say who sent it. */
export const ACTOR_FIELDS = {
  api_key_id: "blob",
  session_epoch: "integer",
  session_expires_at: "integer",
} as const;

/** `api_key_id` is null for a session, the others for a key. */
export function actorRow({ credential }: Actor): CommandRow<keyof typeof ACTOR_FIELDS> {
  return credential.kind === "session"
    ? {
        api_key_id: null,
        session_epoch: credential.epoch,
        session_expires_at: credential.expiresAtMs,
      }
    : { api_key_id: credential.apiKeyId, session_epoch: null, session_expires_at: null };
}

/** Who owns a record (contract.md section 1): the API key, or the user for all their sessions. */
export function rowCredential(user: Expr, actor: Columns<keyof typeof ACTOR_FIELDS>): Expr {
  return expr`coalesce(${actor.api_key_id}, ${user})`;
}

/** The same of an actor, as a parameter. */
export function credentialOf({ userId, credential }: Actor): Expr {
  return uuid(credential.kind === "api_key" ? credential.apiKeyId : userId);
}

/** `mayWrite` over the columns of a command row. */
export function rowMayWrite(user: Expr, actor: Columns<keyof typeof ACTOR_FIELDS>, at: Expr): Expr {
  const session = { user, epoch: actor.session_epoch, expiresAt: actor.session_expires_at };
  return expr`iif(${actor.api_key_id} IS NULL, ${sessionMayWrite(session, at)},
    ${keyMayWrite({ user, key: actor.api_key_id }, at)})`;
}

type SessionColumns = { readonly user: Expr; readonly epoch: Expr; readonly expiresAt: Expr };

function sessionMayWrite({ user, epoch, expiresAt }: SessionColumns, at: Expr): Expr {
  return expr`EXISTS (${unfrozen(user)} AND session_epoch = ${epoch}) AND ${at} < ${expiresAt}`;
}

function keyMayWrite({ user, key }: { readonly user: Expr; readonly key: Expr }, at: Expr): Expr {
  return expr`EXISTS (${unfrozen(user)}) AND EXISTS (SELECT 1 FROM api_keys
    WHERE api_key_id = ${key} AND user_id = ${user}
      AND revoked_at IS NULL AND active_from <= ${at}
      AND (expires_at IS NULL OR expires_at > ${at}))`;
}

function unfrozen(user: Expr): Sql {
  return sql`SELECT 1 FROM users WHERE user_id = ${user} AND frozen_at IS NULL`;
}

/** The precondition of every write of the actor. Its rejection throws the reason. */
export function actorPrecondition(actor: Actor, at: Expr): Precondition<ActorFacts, never> {
  return {
    expr: mayWrite(actor, at),
    reject: (facts) => {
      const rejection = actorRejectionOf(actor, facts);
      if (rejection !== undefined) throw new Problem(rejection);
      return undefined;
    },
  };
}

/** The state of a user and their credential, as JSON text. Null if the user does not exist. */
export type ActorFacts = { readonly actor: string | null };

type ActorState = {
  readonly frozen: FrozenBy | null;
  readonly epoch: number;
  readonly revoked: number | null;
  readonly expires: number | null;
  readonly known: number;
  readonly active: number | null;
  readonly now: number;
  /** Only of a `CheckedActor`. */
  readonly totp_changed?: number;
  /** Only of an `unheld` actor. */
  readonly held_until?: number;
};

/** The facts of which `actorRejectionOf` finds the reason. */
export function actorFacts({ userId, credential }: Actor): Readonly<Record<"actor", Expr>> {
  const user = uuid(userId);
  if (credential.kind === "api_key") return actorFactsOf({ user, key: uuid(credential.apiKeyId) });
  const { checkedTotp, unheld } = credential;
  return actorFactsOf(
    { user, key: atom("NULL") },
    {
      ...(checkedTotp === undefined
        ? {}
        : { totp_changed: expr`NOT ${totpUnchanged({ userId, checkedTotp }, NOW)}` }),
      ...(unheld === undefined ? {} : { held_until: holdUntil(user, NOW) }),
    },
  );
}

/** The same for a user and a key, or NULL for a session, that SQL finds. */
export function actorFactsOf(
  ids: { readonly user: Expr; readonly key: Expr },
  more: Columns = {},
): Readonly<Record<"actor", Expr>> {
  const state = jsonText(
    jsonObject({
      frozen: FROZEN_BY,
      epoch: atom("u.session_epoch"),
      revoked: atom("k.revoked_at"),
      expires: atom("k.expires_at"),
      known: expr`k.api_key_id IS NOT NULL`,
      active: atom("k.active_from"),
      now: NOW,
      ...more,
    }),
  );
  return {
    actor: expr`SELECT ${state} FROM users u
      LEFT JOIN api_keys k ON k.api_key_id = ${ids.key} AND k.user_id = u.user_id
      WHERE u.user_id = ${ids.user}`,
  };
}

/** Reads why `mayWrite` is false. Undefined if it is true. */
export async function actorRejection(
  db: D1Database,
  actor: Actor,
): Promise<ProblemData | undefined> {
  const [facts] = await all<ActorFacts>(db, sql`SELECT ${actorFacts(actor).actor} AS actor`);
  return actorRejectionOf(actor, facts ?? { actor: null });
}

export function changedMeanwhile(): Problem {
  return unavailable("none", "The account changed meanwhile. Try again.");
}

/** Why `mayWrite` is false, in the order of contract.md section 2. Undefined if it is true. */
export function actorRejectionOf(
  { credential }: Actor,
  { actor: state }: ActorFacts,
): ProblemData | undefined {
  const row = state === null ? undefined : (JSON.parse(state) as ActorState);
  if (row === undefined)
    return { code: "session_invalid", detail: "The user of this credential does not exist." };
  const { frozen } = row;
  if (credential.kind === "session") {
    // A freeze ends sessions, so its code comes first.
    if (frozen !== null) return accountFrozen(frozen);
    if (row.epoch !== credential.epoch)
      return { code: "session_invalid", detail: "The session has ended." };
    if (row.now >= credential.expiresAtMs)
      return { code: "session_expired", detail: "The session has expired." };
    if (row.totp_changed === 1)
      return (credential.checkedTotp ?? null) === null ? CODE_REQUIRED : CODE_INVALID;
    if (row.held_until !== undefined && row.held_until > row.now)
      return securityHold(row.held_until);
  } else {
    if (row.known !== 1) return { code: "api_key_unknown", detail: "No such API key." };
    if (row.revoked !== null)
      return { code: "api_key_revoked", detail: "The API key has been revoked." };
    if (row.expires !== null && row.expires <= row.now)
      return { code: "api_key_expired", detail: "The API key has expired." };
  }
  if (frozen !== null) return accountFrozen(frozen);
  if (credential.kind === "session" || (row.active !== null && row.active <= row.now))
    return undefined;
  return {
    code: "scope_missing",
    detail:
      row.active === null
        ? "The operator has not approved the key."
        : `The operator's key has its scopes from ${toWireTime(row.active)}.`,
  };
}
