/**
 * One command as a batch of its own. Book commands are grouped instead (rfq/group-committer.ts).
 */
import { commit, type Group, newGroup } from "./commit.ts";
import { errorFields, log } from "./log.ts";
import { unavailable } from "./problem.ts";
import { all, type Sql } from "./sql.ts";

export type Operation<Outcome> = {
  /**
   *    * The guard first; everything after it depends on what the guard wrote, so that an operation
   *   whose guard does not
   * apply writes nothing.
   */
  readonly statements: (group: Group) => readonly Sql[];
  /** Reads what the group did. They are run again when D1's answer was lost. */
  readonly report: (group: Group) => readonly Sql[];
  /** The outcome from the rows of `report`; undefined when the guard did not apply. */
  readonly result: (rows: readonly (readonly unknown[])[]) => Outcome | undefined;
  /**
   * The outcome of a rejection; undefined when nothing stands in the way any more. May throw a
   * `Problem`.
   */
  readonly rejection: (db: D1Database) => Promise<Outcome | undefined>;
};

/**
 * A guard can lose to a change made between it and the search for the reason; then the operation is
 * tried again.
 */
const MAX_TRIES = 3;

/**
 * Throws `unavailable` when the operation could not be decided within its tries; nothing was done
 * then.
 */
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

/** One try. Undefined when the guard did not apply although nothing stands in the way now. */
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
      log("error", "operation.refused_by_schema", errorFields(committed.cause));
    }
  }
  return operation.rejection(db);
}
