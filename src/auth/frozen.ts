/** A frozen account: by its user, who can unfreeze it with a one-time code, or by the operator. */
import type { ProblemData } from "../platform/problem.ts";

export type FrozenBy = "self" | "operator";

/** Null: not frozen. A freeze without a note of who froze is the operator's, as after a restore. */
export function frozenByOf(row: {
  frozenAt: number | null;
  frozenBy: string | null;
}): FrozenBy | null {
  if (row.frozenAt === null) return null;
  return row.frozenBy === "self" ? "self" : "operator";
}

export function accountFrozen(by: FrozenBy): ProblemData {
  const detail =
    by === "self"
      ? "You froze the account. POST /auth/unfreeze ends it with a one-time code."
      : "The account is frozen. Contact the operator.";
  return { code: "account_frozen", detail, extensions: { frozen_by: by } };
}
