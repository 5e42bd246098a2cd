/** Commits one command in a batch of its own. A book groups its own (rfq/group-committer.ts). */
import { commit, type Group, newGroup } from "./commit.ts";
import { errorFields, log } from "./log.ts";
import { ask, type Question } from "./preconditions.ts";
import { unavailable } from "./problem.ts";
import { all, type Sql } from "./sql.ts";

export type Operation<Outcome> = {
  /** The guard, then what depends on the rows that it wrote. Without them nothing is written. */
  readonly statements: (group: Group) => readonly Sql[];
  /** Queries that read the effects of the group. Repeated if D1's response was lost. */
  readonly report: (group: Group) => readonly Sql[];
  /** Makes the outcome from the rows of `report`. Undefined if the guard did not apply. */
  readonly result: (rows: readonly (readonly unknown[])[]) => Outcome | undefined;
  /** Asked if the guard did not apply. Undefined if all preconditions hold now. May throw. */
  readonly rejection: () => Question<Outcome>;
};

/** Retried if the preconditions hold after the guard did not: another change came in between. */
const MAX_TRIES = 3;

/** Throws `unavailable` with outcome `none` if every attempt was undecided. */
export async function runOperation<Outcome>(
  db: D1Database,
  operation: Operation<Outcome>,
): Promise<Outcome> {
  for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
    const outcome = await tryOperation(db, operation);
    if (outcome !== undefined) return outcome;
  }
  throw unavailable("none");
}

/** Makes one attempt. Undefined if the guard did not apply but all preconditions hold now. */
export async function tryOperation<Outcome>(
  db: D1Database,
  operation: Operation<Outcome>,
): Promise<Outcome | undefined> {
  const group = newGroup();
  const statements = operation.statements(group);
  if (statements.length > 0) {
    const report = operation.report(group);
    const committed = await commit(db, group, [...statements, ...report]);
    if (committed.committed) {
      const rows =
        committed.rows?.slice(statements.length) ??
        (await Promise.all(report.map((statement) => all(db, statement))));
      const result = operation.result(rows);
      if (result !== undefined) return result;
    } else if (committed.reason === "constraint") {
      log("error", "operation.constraint_failed", errorFields(committed.cause));
    }
  }
  const [rejection] = await ask(db, [operation.rejection()]);
  return rejection;
}
