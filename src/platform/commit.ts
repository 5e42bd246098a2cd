/**
 * A commit group: one atomic D1 batch that begins by writing its own id.
 *
 * The id is the fence. When D1's answer is lost, the writer claims the same id as `voided`: if the claim is taken, the
 * group had committed; if it is granted, the group never will, because a late batch hits the unique id and rolls back.
 */
import { unavailable } from "./problem.ts";
import { all, type Expr, expr, first, prepare, type Sql, sql, uuid } from "./sql.ts";
import { uuidv7 } from "./uuid.ts";

/** D1's clock in Unix milliseconds, never below the latest group's. Usable inside any statement. */
export const NOW: Expr = expr`max(CAST(round(unixepoch('subsec') * 1000) AS INTEGER),
  coalesce((SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1), 0))`;

export type Group = {
  /** UUID of the group. */
  readonly id: string;
  /** Scalar subquery: the one instant of everything in the group, in Unix milliseconds. */
  readonly at: Expr;
  /** Scalar subquery: the group's number, stamped on the rows that it opened or ended. */
  readonly seq: Expr;
};

export function newGroup(): Group {
  const id = uuidv7();
  return {
    id,
    at: expr`SELECT at FROM commit_groups WHERE group_id = ${uuid(id)}`,
    seq: expr`SELECT seq FROM commit_groups WHERE group_id = ${uuid(id)}`,
  };
}

export type Committed = {
  readonly committed: true;
  /** Rows per statement, in the order given; null when D1's answer was lost although the group committed. */
  readonly rows: readonly (readonly unknown[])[] | null;
};
export type NotCommitted = {
  readonly committed: false;
  readonly reason: "constraint" | "lost";
  readonly cause: unknown;
};

/** The state of a group cannot be learnt now. Whoever asked must be told `outcome: unknown`. */
export class OutcomeUnknown extends Error {
  readonly groupId: string;
  constructor(groupId: string, options: ErrorOptions) {
    super(`The outcome of commit group ${groupId} is unknown`, options);
    this.name = "OutcomeUnknown";
    this.groupId = groupId;
  }
}

/** Tries at the fence before giving up; the waits between them sum to about six seconds. */
const FENCE_TRIES = 6;

export async function commit(
  db: D1Database,
  group: Group,
  statements: readonly Sql[],
): Promise<Committed | NotCommitted> {
  const begin = sql`INSERT INTO commit_groups (group_id, at, voided) VALUES (${uuid(group.id)}, ${NOW}, 0)`;
  try {
    const results = await db.batch(
      [begin, ...statements].map((statement) => prepare(db, statement)),
    );
    return { committed: true, rows: results.slice(1).map((result) => result.results) };
  } catch (cause) {
    // The fence's own key refused: somebody wrote this group's id already, perhaps this very batch.
    if (isConstraintError(cause) && !/commit_groups\.group_id/.test(String(cause)))
      return { committed: false, reason: "constraint", cause };
    return fence(db, group, cause);
  }
}

/** A commit that certainly did nothing, because of a constraint that its guard should have held: a bug, told as 500. */
export class RolledBack extends Error {
  constructor(groupId: string, cause: unknown) {
    super(`Commit group ${groupId} was rolled back`, { cause });
    this.name = "RolledBack";
  }
}

/** `commit` for verbs that have nothing to add to a failure. Rows per statement; null when D1's answer was lost. */
export async function commitOrThrow(
  db: D1Database,
  group: Group,
  statements: readonly Sql[],
): Promise<Committed["rows"]> {
  const result = await commit(db, group, statements);
  if (result.committed) return result.rows;
  if (result.reason === "lost") throw unavailable("none");
  throw new RolledBack(group.id, result.cause);
}

async function fence(
  db: D1Database,
  group: Group,
  cause: unknown,
): Promise<Committed | NotCommitted> {
  for (let attempt = 0; attempt < FENCE_TRIES; attempt++) {
    if (attempt > 0) await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** attempt));
    const state = await claimFence(db, group.id);
    if (state === "voided") return { committed: false, reason: "lost", cause };
    if (state === "committed") return { committed: true, rows: null };
  }
  throw new OutcomeUnknown(group.id, { cause });
}

/** Voids the group unless it has committed, and says which; `unknown` while D1 does not answer. Idempotent. */
export async function claimFence(
  db: D1Database,
  groupId: string,
): Promise<"voided" | "committed" | "unknown"> {
  try {
    await all(
      db,
      sql`INSERT INTO commit_groups (group_id, at, voided)
      SELECT ${uuid(groupId)}, ${NOW}, 1 WHERE NOT EXISTS (SELECT 1 FROM commit_groups WHERE group_id = ${uuid(groupId)})`,
    );
    const row = await first<{ voided: number }>(
      db,
      sql`SELECT voided FROM commit_groups WHERE group_id = ${uuid(groupId)}`,
    );
    return row === undefined ? "unknown" : row.voided === 1 ? "voided" : "committed";
  } catch {
    return "unknown";
  }
}

/** SQLite refused a statement, so the batch was rolled back whole: certain, not merely likely. */
function isConstraintError(cause: unknown): boolean {
  return (
    cause instanceof Error &&
    /SQLITE_CONSTRAINT|constraint failed|balance not moved|append-only/i.test(
      `${cause.message} ${String(cause.cause)}`,
    )
  );
}
