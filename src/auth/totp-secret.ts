/** A user's TOTP secrets: the confirmed one, its later replacement, and an unconfirmed one. */
import type { Config } from "../platform/config.ts";
import type { ProblemData } from "../platform/problem.ts";
import { openSecret, type Sealed } from "./secret-box.ts";
import { atom, type Columns, type Expr, expr, type Sql, sql, uuid } from "../platform/sql.ts";

type Owner = { readonly userId: string; readonly status?: "pending" | "confirmed" };

/** `FROM … WHERE …` of the secret that is valid at an instant. */
export function validSecret({ userId, status = "confirmed" }: Owner, at: Expr): Sql {
  return sql`FROM totp_secrets WHERE user_id = ${uuid(userId)} AND status = ${status}
    AND (ends_at IS NULL OR ends_at > ${at})`;
}

/** Of a row at an instant: what counts of the secret and its replacement, and since when. */
export function secretAt(
  at: Expr,
  table = "totp_secrets",
): Columns<"sealed" | "masterKeyId" | "since"> {
  const column = (name: string) => atom(`${table}.${name}`);
  const either = (present: string, next: string) =>
    expr`iif(${column("next_from")} <= ${at}, ${column(next)}, ${column(present)})`;
  return {
    sealed: either("secret_sealed", "next_sealed"),
    masterKeyId: either("master_key_id", "next_master_key_id"),
    since: either("created_at", "next_from"),
  };
}

/** A sealed secret with the instant from which it counts. */
export type SealedTotp = Sealed & { readonly since: number };

/**
 * What a seal binds beside the user: from when a confirmed secret counts, and of a pending one,
 * whether a recovery code lets it count at once. So an edited row does not open.
 */
type Bound = { readonly userId: string } & (
  | { readonly status: "confirmed"; readonly since: number }
  | { readonly status: "pending"; readonly recovered: number }
);

/** The additional data of the seal. A pending secret does not open as a confirmed one. */
export function bindingOfTotp(bound: Bound): string {
  const instant = bound.status === "confirmed" ? bound.since : bound.recovered;
  return `totp:${bound.userId}:${bound.status}:${instant}`;
}

/** Throws if the row was altered. Version 0.1 bound its secrets to user and status only. */
export function openTotp(ring: Config["MASTER_KEYS"], box: Sealed, bound: Bound): Promise<string> {
  const first = `totp:${bound.userId}:${bound.status}`;
  return openSecret(ring, box, bindingOfTotp(bound)).catch(() => openSecret(ring, box, first));
}

/** Condition over `recovery_codes`: the code was made with the secret that counts. */
export function codeCounts(userId: Expr, at: Expr): Expr {
  return expr`active_from = (SELECT ${secretAt(at, "s").since} FROM totp_secrets s
    WHERE s.user_id = ${userId} AND s.status = 'confirmed'
      AND (s.ends_at IS NULL OR s.ends_at > ${at}))`;
}

export const CODE_REQUIRED: ProblemData = {
  code: "totp_required",
  detail: "The account has TOTP. Send the code of your authenticator.",
};
export const CODE_INVALID: ProblemData = {
  code: "totp_invalid",
  detail: "The code is wrong, or was used before. Wait for the next code of your authenticator.",
};

/**
 * The sealed secret whose code was checked. Null: TOTP was off. Hashing the password takes long, so
 * the owner may turn TOTP on, or move it to another device, before the guard is evaluated.
 */
type Checked = { readonly userId: string; readonly checkedTotp: string | null };

/** Condition: no secret is valid except the checked one. TOTP that was removed since holds it. */
export function totpUnchanged({ userId, checkedTotp }: Checked, at: Expr): Expr {
  const valid = validSecret({ userId }, at);
  return expr`NOT EXISTS (SELECT 1 ${valid} AND ${secretAt(at).sealed} IS NOT ${checkedTotp})`;
}
