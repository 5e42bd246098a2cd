/** Freezes and unfreezes users. A freeze ends all sessions and cancels what is still to apply. */
import type { Actor } from "../platform/actor.ts";
import { NOW, type When } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { Problem } from "../platform/problem.ts";
import { holds, type Sql, sql, uuid } from "../platform/sql.ts";
import { type Alongside, auditRow, commitAudited, recordBy, recordOf } from "../audit/audit.ts";
import { checkPassword } from "./check-password.ts";
import { forgetCredentials } from "./credential-cache.ts";
import { accountFrozen, type FrozenBy, factorsPrecedeFreeze, cancelWaiting } from "./hold.ts";
import { attemptSucceeded } from "./login-throttle.ts";
import { commitOwnChange } from "./own-change.ts";
import { revokeKeys } from "./revoke-key.ts";
import { raiseEpoch } from "./end-sessions.ts";
import { checkSecondFactor } from "./second-factor.ts";
import { findUser, normalizeEmail } from "./user.ts";

/** Also takes over a freeze of the user's own. False: frozen by an operator, or no such user. */
export async function freezeUser(
  db: D1Database,
  { userId, operator }: { userId: string; operator: string },
  alongside?: Alongside,
): Promise<boolean> {
  const record = recordBy(`operator:${operator}`, "account_frozen", { userId });
  const frozen = await commitAudited(db, {
    record,
    when: () => sql`EXISTS (SELECT 1 FROM users WHERE user_id = ${uuid(userId)}
      AND (frozen_at IS NULL OR frozen_by IS 'self'))`,
    statements: ({ at }, applied) => freeze({ ...record, userId, by: "operator" }, { at, applied }),
    alongside,
  });
  forgetCredentials(userId);
  return frozen;
}

/** Freezes the caller's own account. Throws what is wrong with the credential. */
export async function freezeOwnAccount(
  db: D1Database,
  { actor, clientIp }: { actor: Actor; clientIp: string | undefined },
  alongside?: Alongside,
): Promise<void> {
  const { userId } = actor;
  const record = recordOf(actor, "account_frozen", { ip: clientIp, subjectId: userId });
  await commitOwnChange(db, actor, {
    record,
    statements: (when) => freeze({ ...record, userId, by: "self" }, when),
    alongside,
  });
}

function freeze(
  { by, ...record }: ReturnType<typeof recordBy> & { userId: string; by: FrozenBy },
  { at, applied }: When,
): readonly Sql[] {
  const { userId } = record;
  return [
    sql`UPDATE users SET frozen_at = coalesce(frozen_at, ${at}), frozen_by = ${by}
      WHERE user_id = ${uuid(userId)} AND ${applied}`,
    auditRow({ ...record, kind: "sessions_ended" }, at, applied),
    raiseEpoch(userId, applied),
    ...cancelWaiting(userId, { at, applied }),
  ];
}

/** Ends a freeze for the operator. Returns false if the user is not frozen or does not exist. */
export function unfreezeUser(
  db: D1Database,
  { userId, operator }: { userId: string; operator: string },
): Promise<boolean> {
  const record = recordBy(`operator:${operator}`, "account_unfrozen", { userId });
  return commitAudited(db, {
    record,
    when: () => sql`EXISTS (
      SELECT 1 FROM users WHERE user_id = ${uuid(userId)} AND frozen_at IS NOT NULL)`,
    statements: (_, applied) => [unfreeze(userId, applied)],
  });
}

function unfreeze(userId: string, applied: Sql): Sql {
  return sql`UPDATE users SET frozen_at = NULL, frozen_by = NULL
    WHERE user_id = ${uuid(userId)} AND ${applied}`;
}

type Unfreezing = {
  readonly email: string;
  readonly password: string;
  readonly totp_code: string;
  readonly revoke_keys: boolean;
  readonly clientIp: string | undefined;
};

/**
 * Ends a freeze of the user's own, which takes a one-time code: a thief may have the password. An
 * account that is not frozen stays as it is. Throws `account_frozen` if only the operator can end
 * the freeze, also if the password or the authenticator is younger than it.
 */
export async function unfreezeOwnAccount(
  db: D1Database,
  settings: Config,
  request: Unfreezing,
): Promise<{ userId: string; unfrozen: boolean }> {
  const { clientIp } = request;
  const caller = { email: normalizeEmail(request.email), clientIp };
  const verified = await checkPassword(db, settings, caller, { password: request.password });
  const { attempt, userId, epoch, totp, passwordHash, frozen } = verified;
  if (frozen === "operator") throw new Problem(accountFrozen("operator"));
  // Before the code, so that it is not used up.
  if (
    frozen === "self" &&
    totp !== null &&
    !(await holds(db, factorsPrecedeFreeze(settings, userId, NOW)))
  )
    throw new Problem({
      ...accountFrozen("self"),
      detail:
        "The password or the authenticator changed less than the security delay before the " +
        "freeze. Contact the operator.",
    });
  // The guard does not check TOTP again: it changes only while the account is not frozen, and a
  // freeze raises the epoch that the guard compares.
  const checkedTotp = await checkSecondFactor(db, settings, {
    userId,
    clientIp,
    codes: { totp_code: request.totp_code },
    totp,
    actor: "password",
  });
  if (frozen === "self" && checkedTotp === null)
    throw new Problem({
      ...accountFrozen("self"),
      detail: "An account without TOTP is unfrozen by the operator only.",
    });
  const record = recordBy("password", "account_unfrozen", { userId, ip: clientIp });
  const applied = await commitAudited(db, {
    record,
    when: ({ at }) => sql`EXISTS (SELECT 1 FROM users WHERE user_id = ${uuid(userId)}
      AND frozen_at IS NOT NULL AND frozen_by IS 'self' AND session_epoch = ${epoch}
      AND password_hash = ${passwordHash})
      AND ${factorsPrecedeFreeze(settings, userId, at)}`,
    statements: ({ at }, written) => [
      unfreeze(userId, written),
      attemptSucceeded(attempt, written),
      ...(request.revoke_keys
        ? revokeKeys({ userId, which: "session_minted" }, record, { at, applied: written })
        : []),
    ],
  });
  forgetCredentials(userId);
  if (!applied) {
    const user = await findUser(db, userId);
    const by = user === undefined ? "operator" : user.frozen;
    if (by !== null) throw new Problem(accountFrozen(by));
  }
  return { userId, unfrozen: applied };
}
