/**
 * Resets by the operator of what a user lost: the password or the second factor. One operator must
 * not be able to take an account over unseen, so sessions carry only `read` for
 * AUTH_SECURITY_DELAY_SECS after it (the security hold), sessions end, and the keys that sessions
 * minted are revoked.
 */
import type { Config } from "../platform/config.ts";
import { type Expr, type Sql, sql, TRUE, uuid } from "../platform/sql.ts";
import { type Alongside, type AuditRecord, auditRow, commitAudited } from "../audit/audit.ts";
import { type DueEmailChange, mayApply } from "./change-email.ts";
import { forgetCredentials } from "./credential-cache.ts";
import { startHold } from "./hold.ts";
import { liveKeysOf, revokeKeys } from "./revoke-keys.ts";
import { type Details, detailsOf, passwordSha256 } from "../audit/event-details.ts";
import { raiseEpoch } from "./session-epoch.ts";

export type Reset = {
  readonly userId: string;
  readonly operator: string;
  /** Whether the keys that sessions minted stay valid. */
  readonly keepKeys: boolean;
  readonly alongside?: Alongside;
};
/** Undefined: there is no such user. */
export type ResetResult = { readonly revokedKeys: readonly string[] } | undefined;

/** Sets the password. With `change` also the email address, if the change may be applied. */
export function setPassword(
  db: D1Database,
  settings: Config,
  request: Reset & { passwordHash: string; change?: DueEmailChange },
): Promise<ResetResult> {
  const { userId, passwordHash, change } = request;
  const mine = sql`user_id = ${uuid(userId)}`;
  return reset(db, settings, {
    ...request,
    kind: "password_set",
    details: detailsOf(settings, "password_set", { passwordSha256: passwordSha256(passwordHash) }),
    allowed: (at) => (change === undefined ? TRUE : mayApply(change, at)),
    statements: (_, applied) => [
      sql`UPDATE users SET password_hash = ${passwordHash},
          email = coalesce(${change?.to ?? null}, email)
        WHERE ${mine} AND ${applied}`,
    ],
    // The last one, so that notices of the others go to the address of before.
    last: change && {
      kind: "email_changed",
      details: detailsOf(settings, "email_changed", { from: change.from, to: change.to }),
    },
  });
}

/** Turns TOTP off at once, for a user who lost the authenticator and the recovery codes. */
export function resetTotp(db: D1Database, settings: Config, request: Reset): Promise<ResetResult> {
  const mine = sql`user_id = ${uuid(request.userId)}`;
  return reset(db, settings, {
    ...request,
    kind: "totp_reset",
    details: detailsOf(settings, "totp_reset", {}),
    allowed: () => TRUE,
    statements: (_, applied) => [
      sql`DELETE FROM totp_secrets WHERE ${mine} AND ${applied}`,
      sql`DELETE FROM recovery_codes WHERE ${mine} AND ${applied}`,
    ],
  });
}

async function reset(
  db: D1Database,
  settings: Config,
  request: Reset & {
    kind: "password_set" | "totp_reset";
    details: Details;
    allowed: (at: Expr) => Expr;
    statements: Alongside;
    last?: { readonly kind: "email_changed"; readonly details: Details } | undefined;
  },
): Promise<ResetResult> {
  const { userId, keepKeys } = request;
  const mine = sql`user_id = ${uuid(userId)}`;
  const keys = { userId, which: "session_minted" } as const;
  const revokedKeys = keepKeys ? [] : await liveKeysOf(db, keys);
  const about = {
    actor: `operator:${request.operator}`,
    userId,
    apiKeyId: null,
    ip: null,
    subjectId: userId,
  } as const;
  const ended: AuditRecord = {
    ...about,
    kind: "sessions_ended",
    details: detailsOf(settings, "sessions_ended", {}),
  };
  const changed = await commitAudited(db, {
    record: { ...about, kind: request.kind, details: request.details },
    when: ({ at }) => sql`EXISTS (SELECT 1 FROM users WHERE ${mine}) AND ${request.allowed(at)}`,
    statements: (group, applied) =>
      [
        ...request.statements(group, applied),
        auditRow(ended, group.at, applied),
        raiseEpoch(userId, applied),
        ...startHold(settings, about, { at: group.at, applied }),
        ...(keepKeys
          ? []
          : revokeKeys(keys, { actor: about.actor, ip: null }, { at: group.at, applied })),
        ...(request.last === undefined
          ? []
          : [auditRow({ ...about, ...request.last }, group.at, applied)]),
      ] satisfies readonly Sql[],
    alongside: request.alongside,
  });
  forgetCredentials({ userId, apiKeyIds: revokedKeys });
  return changed ? { revokedKeys } : undefined;
}
