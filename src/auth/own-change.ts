/** Commits a change that a user makes to their own account. */
import type { Actor } from "../platform/actor.ts";
import { Problem } from "../platform/problem.ts";
import { and, type Expr, type Sql } from "../platform/sql.ts";
import { type Alongside, type AuditRecord, commitAudited } from "../audit/audit.ts";
import { forgetCredentials } from "./credential-cache.ts";
import { actorRejection, changedMeanwhile, mayWrite } from "./may-write.ts";

type OwnChange = {
  readonly record: AuditRecord;
  /** What must hold beside `mayWrite`. */
  readonly when?: (at: Expr) => Expr;
  readonly statements: (when: { at: Expr; applied: Sql }) => readonly Sql[];
  readonly alongside?: Alongside | undefined;
};

/** False if `when` did not hold. Throws why the actor may not, or `unavailable` if it now may. */
export async function commitOwnChange(
  db: D1Database,
  actor: Actor,
  { record, when, statements, alongside }: OwnChange,
): Promise<boolean> {
  const applied = await commitAudited(db, {
    record,
    when: ({ at }) => and([mayWrite(actor, at), ...(when === undefined ? [] : [when(at)])]),
    statements: ({ at }, written) => statements({ at, applied: written }),
    alongside,
  });
  forgetCredentials(actor.userId);
  if (applied) return true;
  const rejection = await actorRejection(db, actor);
  if (rejection !== undefined) throw new Problem(rejection);
  if (when === undefined) throw changedMeanwhile();
  return false;
}
