/**
 * What stops an account: a freeze, by its user, who can end it with a one-time code, or by the
 * operator, and the security hold.
 *
 * A hold lasts for one AUTH_SECURITY_DELAY_SECS after a change of the password, the email address
 * or the authenticator. Sessions carry only `read`, no session mints a key, and nothing that takes
 * step-up changes but the password and the authenticator. Whoever made the change may be a thief,
 * and the owner reads the notice of it meanwhile. Freezing stays possible.
 */
import type { When } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import type { ProblemData } from "../platform/problem.ts";
import { atom, type Expr, expr, type Sql, sql, uuid } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { type AuditRecord, auditRow } from "../audit/audit.ts";
import { secretAt } from "./totp-secret.ts";

export type FrozenBy = "self" | "operator";

/** Over `users u`. NULL: not frozen. Without a note, as after a restore, the operator froze it. */
export const FROZEN_BY: Expr = atom(
  "iif(u.frozen_at IS NULL, NULL, iif(u.frozen_by IS 'self', 'self', 'operator'))",
);

export function accountFrozen(by: FrozenBy): ProblemData {
  const detail =
    by === "self"
      ? "You froze the account. POST /auth/unfreeze ends it with a one-time code."
      : "The account is frozen. Contact the operator.";
  return { code: "account_frozen", detail, extensions: { frozen_by: by } };
}

export function holdMsOf({ AUTH_SECURITY_DELAY_SECS }: Config): number {
  return AUTH_SECURITY_DELAY_SECS * 1_000;
}

/** When the user's hold ends. A replacement of the authenticator that waits is one, too. */
export function holdUntil(user: Expr, at: Expr): Expr {
  return expr`max(
    coalesce((SELECT h.hold_until FROM users h WHERE h.user_id = ${user}), 0),
    coalesce((SELECT w.next_from FROM totp_secrets w WHERE w.user_id = ${user}
      AND w.status = 'confirmed' AND w.next_from > ${at}
      AND (w.ends_at IS NULL OR w.ends_at > ${at})), 0))`;
}

/** Starts a hold, or extends it, and cancels what waits. `by` is who made the change. */
export function startHold(
  settings: Config,
  by: Omit<AuditRecord, "kind" | "details"> & { readonly userId: string },
  { at, applied }: When,
): readonly Sql[] {
  const holdMs = holdMsOf(settings);
  return [
    auditRow({ ...by, kind: "security_hold" }, at, applied),
    sql`UPDATE users SET hold_until = max(coalesce(hold_until, 0), ${at} + ${holdMs})
      WHERE user_id = ${uuid(by.userId)} AND ${applied}`,
    ...cancelWaiting(by.userId, { at, applied }),
  ];
}

/**
 * Condition: the password and the authenticator count since a whole delay before the user's freeze.
 * Younger ones may be a thief's, and then the freeze was against them.
 */
export function factorsPrecedeFreeze(settings: Config, userId: string, at: Expr): Expr {
  const { since } = secretAt(at, "t");
  return expr`EXISTS (SELECT 1 FROM users u
    JOIN totp_secrets t ON t.user_id = u.user_id AND t.status = 'confirmed'
    WHERE u.user_id = ${uuid(userId)} AND coalesce(u.hold_until, 0) <= u.frozen_at
      AND ${since} + ${holdMsOf(settings)} <= u.frozen_at)`;
}

export function securityHold(untilMs: number): ProblemData {
  const until = toWireTime(untilMs);
  return {
    code: "security_hold",
    detail:
      "The password, the authenticator or the address of the account has changed. " +
      `This is possible from ${until} on.`,
    extensions: { until },
  };
}

/** Cancels changes that wait to take effect, because a thief may have requested them. */
export function cancelWaiting(userId: string, { at, applied }: When): readonly Sql[] {
  const mine = sql`user_id = ${uuid(userId)} AND ${applied}`;
  return [
    ...cancelWaitingTotp(userId, { at, applied }),
    sql`DELETE FROM totp_secrets WHERE ${mine} AND status = 'pending'`,
    sql`DELETE FROM email_changes WHERE ${mine}`,
    sql`DELETE FROM account_policies WHERE ${mine} AND active_from > ${at}`,
    sql`DELETE FROM withdrawal_addresses WHERE ${mine} AND active_from > ${at}`,
    sql`UPDATE api_keys INDEXED BY api_keys_live SET revoked_at = ${at}
      WHERE ${mine} AND revoked_at IS NULL AND active_from > ${at} AND minted_by = 'session'`,
  ];
}

/** The removal and the replacement of the authenticator, with the codes of the new one. */
export function cancelWaitingTotp(userId: string, { at, applied }: When): readonly Sql[] {
  const mine = sql`user_id = ${uuid(userId)} AND ${applied}`;
  return [
    sql`UPDATE totp_secrets SET ends_at = NULL
      WHERE ${mine} AND status = 'confirmed' AND ends_at > ${at}`,
    sql`UPDATE totp_secrets SET next_sealed = NULL, next_master_key_id = NULL, next_from = NULL
      WHERE ${mine} AND status = 'confirmed' AND next_from > ${at}`,
    sql`DELETE FROM recovery_codes WHERE ${mine} AND active_from > ${at}`,
  ];
}
