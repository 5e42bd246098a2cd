/**
 * Resets by the operator of what a user lost: the password or the second factor. One operator must
 * not be able to take an account over unseen, so sessions carry only `read` for
 * AUTH_SECURITY_DELAY_SECS after it (the security hold), sessions end, and the keys that sessions
 * minted are revoked.
 */
import type { Config } from "../platform/config.ts";
import { problem } from "../platform/problem.ts";
import { expr, type Expr, first, type Sql, sql, uuid } from "../platform/sql.ts";
import { type Alongside, type AuditRecord, auditRow, commitAudited } from "./audit.ts";
import { forgetCredentials } from "./credential-cache.ts";
import { startHold } from "./hold.ts";
import { liveKeysOf, revokeKeys } from "./revoke-keys.ts";
import { type Details, detailsOf, passwordSha256 } from "./rights.ts";
import { raiseEpoch } from "./session-epoch.ts";
import { normalizeEmail } from "./user.ts";

export type Reset = {
  readonly userId: string;
  readonly operator: string;
  /** Whether the keys that sessions minted stay valid. */
  readonly keepKeys: boolean;
  readonly alongside?: Alongside;
};
/** Undefined: there is no such user. */
export type ResetResult = { readonly revokedKeys: readonly string[] } | undefined;

/** Sets the password, and the email address if one is given. Throws `email_taken`. */
export async function setPassword(
  db: D1Database,
  settings: Config,
  request: Reset & { passwordHash: string; email?: string | undefined },
): Promise<ResetResult> {
  const mine = sql`user_id = ${uuid(request.userId)}`;
  const email = request.email === undefined ? null : normalizeEmail(request.email);
  const taken = expr`EXISTS (SELECT 1 FROM users WHERE email = ${email} AND NOT ${mine})`;
  const result = await reset(db, settings, {
    ...request,
    kind: "password_set",
    details: detailsOf(settings, "password_set", {
      passwordSha256: passwordSha256(request.passwordHash),
    }),
    allowed: expr`NOT ${taken}`,
    statements: (_, applied) => [
      sql`UPDATE users SET password_hash = ${request.passwordHash}, email = coalesce(${email}, email)
        WHERE ${mine} AND ${applied}`,
    ],
  });
  if (
    result === undefined &&
    (await first<{ taken: number }>(db, sql`SELECT ${taken} AS taken`))?.taken === 1
  ) {
    throw problem("email_taken", "Another user has this email address.");
  }
  return result;
}

/** Turns TOTP off at once, for a user who lost the authenticator and the recovery codes. */
export function resetTotp(db: D1Database, settings: Config, request: Reset): Promise<ResetResult> {
  const mine = sql`user_id = ${uuid(request.userId)}`;
  return reset(db, settings, {
    ...request,
    kind: "totp_reset",
    details: detailsOf(settings, "totp_reset", {}),
    allowed: expr`1`,
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
    allowed: Expr;
    statements: Alongside;
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
    when: () => sql`EXISTS (SELECT 1 FROM users WHERE ${mine}) AND ${request.allowed}`,
    statements: (group, applied) =>
      [
        ...request.statements(group, applied),
        auditRow(ended, group.at, applied),
        raiseEpoch(userId, applied),
        ...startHold(settings, about, { at: group.at, applied }),
        ...(keepKeys
          ? []
          : revokeKeys(keys, { actor: about.actor, ip: null }, { at: group.at, applied })),
      ] satisfies readonly Sql[],
    alongside: request.alongside,
  });
  forgetCredentials({ userId, apiKeyIds: revokedKeys });
  return changed ? { revokedKeys } : undefined;
}
