/**
 * Changes of an account that were requested and that have not taken effect. A freeze and the start
 * of a security hold cancel them, because a thief may have requested them.
 */
import { type Expr, type Sql, sql, uuid } from "../platform/sql.ts";

export function cancelWaiting(
  userId: string,
  { at, applied }: { at: Expr; applied: Sql },
): readonly Sql[] {
  const mine = sql`user_id = ${uuid(userId)} AND ${applied}`;
  return [
    ...cancelWaitingTotp(userId, { at, applied }),
    sql`DELETE FROM totp_secrets WHERE ${mine} AND status = 'pending'`,
    sql`DELETE FROM email_changes WHERE ${mine}`,
    sql`DELETE FROM account_policies WHERE ${mine} AND active_from > ${at}`,
    sql`DELETE FROM withdrawal_addresses WHERE ${mine} AND active_from > ${at}`,
  ];
}

/** The removal and the replacement of the authenticator, with the codes of the new one. */
export function cancelWaitingTotp(
  userId: string,
  { at, applied }: { at: Expr; applied: Sql },
): readonly Sql[] {
  const mine = sql`user_id = ${uuid(userId)} AND ${applied}`;
  return [
    sql`UPDATE totp_secrets SET ends_at = NULL
      WHERE ${mine} AND status = 'confirmed' AND ends_at > ${at}`,
    sql`UPDATE totp_secrets SET next_sealed = NULL, next_master_key_id = NULL, next_from = NULL
      WHERE ${mine} AND status = 'confirmed' AND next_from > ${at}`,
    sql`DELETE FROM recovery_codes WHERE ${mine} AND active_from > ${at}`,
    sql`UPDATE recovery_codes SET ends_at = NULL WHERE ${mine} AND ends_at > ${at}`,
  ];
}
