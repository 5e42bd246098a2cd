/**
 * The operator resets a password or second factor that was lost. One operator must not be able to
 * take an account over unseen, so sessions carry only `read` for AUTH_SECURITY_DELAY_SECS after it
 * (the security hold), sessions end, and the keys that sessions minted are revoked.
 */
import type { Config } from "../platform/config.ts";
import { type Expr, sql, TRUE, uuid } from "../platform/sql.ts";
import {
  type Alongside,
  type AuditRecord,
  auditRow,
  commitAudited,
  detailed,
  recordBy,
} from "../audit/audit.ts";
import { type DueEmailChange, mayApplyEmailChange } from "./change-email.ts";
import { forgetCredentials } from "./credential-cache.ts";
import { startHold } from "./hold.ts";
import { countLiveKeys, revokeKeys } from "./revoke-key.ts";
import { raiseEpoch } from "./end-sessions.ts";

export type Reset = {
  readonly userId: string;
  readonly operator: string;
  /** Whether the keys that sessions minted stay valid. */
  readonly keepKeys: boolean;
  readonly alongside?: Alongside;
};
/** How many keys were revoked. Undefined: there is no such user. */
export type ResetResult = { readonly revokedKeys: number } | undefined;

/** Sets the password. With `change` also the email address, if the change may be applied. */
export function setPassword(
  db: D1Database,
  settings: Config,
  request: Reset & { passwordHash: string; change?: DueEmailChange },
): Promise<ResetResult> {
  const { userId, passwordHash, change } = request;
  const by = `operator:${request.operator}` as const;
  return reset(db, settings, request, {
    record: recordBy(by, "password_set", { userId }),
    allowed: (at) => (change === undefined ? TRUE : mayApplyEmailChange(change, at)),
    statements: (_, applied) => [
      sql`UPDATE users SET password_hash = ${passwordHash},
          email = coalesce(${change?.to ?? null}, email)
        WHERE user_id = ${uuid(userId)} AND ${applied}`,
    ],
    // The last one, so that notices of the others go to the address of before.
    last:
      change &&
      detailed(settings, recordBy(by, "email_changed", { userId }), {
        from: change.from,
        to: change.to,
      }),
  });
}

/** Turns TOTP off at once, for a user who lost the authenticator and the recovery codes. */
export function resetTotp(db: D1Database, settings: Config, request: Reset): Promise<ResetResult> {
  const { userId, operator } = request;
  const mine = sql`user_id = ${uuid(userId)}`;
  return reset(db, settings, request, {
    record: recordBy(`operator:${operator}`, "totp_reset", { userId }),
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
  { userId, operator, keepKeys, alongside }: Reset,
  change: {
    record: AuditRecord;
    allowed: (at: Expr) => Expr;
    statements: Alongside;
    last?: AuditRecord | undefined;
  },
): Promise<ResetResult> {
  const keys = { userId, which: "session_minted" } as const;
  const revokedKeys = keepKeys ? 0 : await countLiveKeys(db, keys);
  const about = recordBy(`operator:${operator}`, "sessions_ended", { userId });
  const changed = await commitAudited(db, {
    record: change.record,
    when: ({ at }) => sql`EXISTS (SELECT 1 FROM users WHERE user_id = ${uuid(userId)})
      AND ${change.allowed(at)}`,
    statements: (group, applied) => {
      const { at } = group;
      return [
        ...change.statements(group, applied),
        auditRow(about, at, applied),
        raiseEpoch(userId, applied),
        ...startHold(settings, { ...about, userId }, { at, applied }),
        ...(keepKeys ? [] : revokeKeys(keys, about, { at, applied })),
        ...(change.last === undefined ? [] : [auditRow(change.last, at, applied)]),
      ];
    },
    alongside,
  });
  forgetCredentials(userId);
  return changed ? { revokedKeys } : undefined;
}
