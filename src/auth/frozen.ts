/** A frozen account: by its user, who can unfreeze it with a one-time code, or by the operator. */
import type { ProblemData } from "../platform/problem.ts";
import { atom, type Expr } from "../platform/sql.ts";

export type FrozenBy = "self" | "operator";

/**
 * SQL over `users u`: who froze the user. NULL: nobody. A freeze without a note of who froze is the
 * operator's, as after a restore.
 */
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
