/**
 * The state of TOTP that a check of the second factor has read. Hashing the password takes long, so
 * the owner may turn TOTP on, or move it to another device, before the guard is evaluated.
 */
import type { ProblemData } from "../platform/problem.ts";
import { type Expr, expr } from "../platform/sql.ts";
import { secretAt, validSecret } from "./totp-secret.ts";

export const CODE_REQUIRED: ProblemData = {
  code: "totp_required",
  detail: "The account has TOTP. Send the code of your authenticator.",
};
export const CODE_INVALID: ProblemData = {
  code: "totp_invalid",
  detail: "The code is wrong, or was used before. Wait for the next code of your authenticator.",
};

/** The sealed secret whose code was used. Null: TOTP was off. */
type Checked = { readonly userId: string; readonly checkedTotp: string | null };

/** Condition: no secret is valid except the checked one. TOTP that was removed since holds it. */
export function totpUnchanged({ userId, checkedTotp }: Checked, at: Expr): Expr {
  const valid = validSecret({ userId, status: "confirmed" }, at);
  return expr`NOT EXISTS (SELECT 1 ${valid} AND ${secretAt(at).sealed} IS NOT ${checkedTotp})`;
}

/** The rejection if `totpUnchanged` does not hold. */
export function totpChanged(checkedTotp: string | null): ProblemData {
  return checkedTotp === null ? CODE_REQUIRED : CODE_INVALID;
}
