/**
 * A commit group: one atomic D1 batch whose first statement inserts the group's unique id.
 *
 * The id is a fence. If D1's response is lost, the writer inserts the same id as `voided`. If the
 * id already exists, the group has committed. Otherwise it can never commit, because a late batch
 * would violate the unique id and roll back.
 */
import { isD1Error } from "./platform-limits.ts";
import { unavailable } from "./problem.ts";
import { QueryLimitReached } from "./query-limit.ts";
import { all, batch, type Expr, expr, scalar, type Sql, sql, uuid } from "./sql.ts";
import { pauseBeforeRetry } from "./time.ts";
import { uuidv7 } from "./uuid.ts";

/** D1's clock in Unix milliseconds, but never before the instant of the latest group. */
export const NOW: Expr = expr`max(CAST(round(unixepoch('subsec') * 1000) AS INTEGER),
  coalesce((SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1), 0))`;

export type Group = {
  readonly id: string;
  /** Scalar subquery: the instant of the group, in Unix milliseconds. */
  readonly at: Expr;
  /** Scalar subquery: the number of the group, for the `…_group` columns of the rows it changes. */
  readonly seq: Expr;
};

/** The instant of a group, and the condition that the guard in it applied. */
export type When = { readonly at: Expr; readonly applied: Sql };

export function newGroup(): Group {
  return groupOf(uuidv7());
}

/** The group with this id, which may have committed earlier. */
export function groupOf(id: string): Group {
  return {
    id,
    at: expr`SELECT at FROM commit_groups WHERE group_id = ${uuid(id)}`,
    seq: expr`SELECT seq FROM commit_groups WHERE group_id = ${uuid(id)}`,
  };
}

export type Committed = {
  readonly committed: true;
  /** The rows of each statement. Null if the group committed but D1's response was lost. */
  readonly rows: readonly (readonly unknown[])[] | null;
};
export type NotCommitted = {
  readonly committed: false;
  /** `constraint`: a statement was refused, and a repetition would be too. */
  readonly reason: "constraint" | "lost";
  readonly cause: unknown;
};

/** Nobody can tell now whether the group committed. The client receives `outcome: unknown`. */
export class OutcomeUnknown extends Error {
  readonly groupId: string;
  constructor(groupId: string, options: ErrorOptions) {
    super(`The outcome of commit group ${groupId} is unknown`, options);
    this.name = "OutcomeUnknown";
    this.groupId = groupId;
  }
}

/** Attempts to claim the fence. The pauses between them add up to about six seconds. */
const FENCE_ATTEMPTS = 6;

export async function commit(
  db: D1Database,
  group: Group,
  statements: readonly Sql[],
): Promise<Committed | NotCommitted> {
  const begin = sql`INSERT INTO commit_groups (group_id, at, voided)
    VALUES (${uuid(group.id)}, ${NOW}, 0)`;
  try {
    const [, ...rows] = await batch(db, [begin, ...statements]);
    return { committed: true, rows };
  } catch (cause) {
    // A duplicate group id may come from this batch, if it committed before: the fence decides.
    if (isRefused(cause) && !isD1Error(cause, "group"))
      return { committed: false, reason: "constraint", cause };
    // Nothing was sent, so there is nothing to void.
    if (cause instanceof QueryLimitReached) return { committed: false, reason: "lost", cause };
    return fence(db, group, cause);
  }
}

/** A constraint rolled the group back, so it changed nothing. Its guard has a bug, hence 500. */
export class RolledBack extends Error {
  constructor(groupId: string, cause: unknown) {
    super(`Commit group ${groupId} was rolled back`, { cause });
    this.name = "RolledBack";
  }
}

/** As `commit`, but throws if the group did not commit. Returns the rows of each statement. */
export async function commitOrThrow(
  db: D1Database,
  group: Group,
  statements: readonly Sql[],
): Promise<Committed["rows"]> {
  return committedRows(group, await commit(db, group, statements));
}

/** Throws if the group did not commit. */
export function committedRows(group: Group, result: Committed | NotCommitted): Committed["rows"] {
  if (result.committed) return result.rows;
  if (result.reason === "lost") throw unavailable("none");
  throw new RolledBack(group.id, result.cause);
}

async function fence(
  db: D1Database,
  group: Group,
  cause: unknown,
): Promise<Committed | NotCommitted> {
  for (let attempt = 0; attempt < FENCE_ATTEMPTS; attempt++) {
    if (attempt > 0) await pauseBeforeRetry(100 * 2 ** attempt);
    const claim = await claimFence(db, group.id);
    if (claim === "voided") return { committed: false, reason: "lost", cause };
    if (claim === "committed") return { committed: true, rows: null };
  }
  throw new OutcomeUnknown(group.id, { cause });
}

/** Voids the group unless it has committed. `unknown`: D1 does not respond. Idempotent. */
export async function claimFence(
  db: D1Database,
  groupId: string,
): Promise<"voided" | "committed" | "unknown"> {
  try {
    await all(
      db,
      sql`INSERT INTO commit_groups (group_id, at, voided)
      SELECT ${uuid(groupId)}, ${NOW}, 1
      WHERE NOT EXISTS (SELECT 1 FROM commit_groups WHERE group_id = ${uuid(groupId)})`,
    );
    const voided = await scalar<number | null>(
      db,
      expr`SELECT voided FROM commit_groups WHERE group_id = ${uuid(groupId)}`,
    );
    return voided === null ? "unknown" : voided === 1 ? "voided" : "committed";
  } catch {
    return "unknown";
  }
}

/** Whether SQLite or our limits refused a statement. Then the batch was rolled back or not sent. */
function isRefused(cause: unknown): boolean {
  if (!(cause instanceof Error)) return false;
  return (
    cause instanceof RangeError || isD1Error(cause, "constraint") || isD1Error(cause, "impossible")
  );
}
