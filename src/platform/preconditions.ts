/**
 * * The preconditions of a verb, each stated once.
 *
 * The guard of a batch is their conjunction, so that the database decides. When the guard did not
 * apply, the same list is evaluated to find the reason: guard and rejection cannot disagree.
 */
import { and, type Columns, type Expr, first, join, raw, select, type Sql, sql } from "./sql.ts";

export type Precondition<Facts, Outcome> = {
  readonly expr: Expr;
  /**
   * The outcome when `expr` does not hold; undefined when the command should be tried again. May
   * throw a `Problem`.
   */
  readonly reject: (
    facts: Facts,
    db: D1Database,
  ) => Outcome | undefined | Promise<Outcome | undefined>;
};

export function guardOf(preconditions: readonly Precondition<never, unknown>[]): Expr {
  return and(preconditions.map((precondition) => precondition.expr));
}

/** Finds the first precondition that does not hold, by one read. Undefined when all hold now. */
export async function rejectionOf<Facts, Outcome>(
  db: D1Database,
  check: {
    readonly preconditions: readonly Precondition<Facts, Outcome>[];
    /** What the rejections need to name their details, read together with the preconditions. */
    readonly facts: Columns & Readonly<Record<keyof Facts, Expr>>;
    /** `FROM … WHERE …` of the record that the command names; omitted when it names none. */
    readonly from?: Sql;
    /** The outcome when that record does not exist. */
    readonly missing?: () => Outcome | Promise<Outcome>;
  },
): Promise<Outcome | undefined> {
  const { preconditions, facts, from = sql``, missing } = check;
  const holds = preconditions.map(({ expr }, index) => sql`${expr} AS ${raw(`holds_${index}`)}`);
  const columns = Object.keys(facts).length === 0 ? holds : [...holds, select(facts)];
  const row = await first<Facts & Record<`holds_${number}`, number | null>>(
    db,
    sql`SELECT ${join(columns, ", ")} ${from}`,
  );
  if (row === undefined) return missing?.();
  const failed = preconditions.find((_, index) => row[`holds_${index}`] !== 1);
  return failed?.reject(row, db);
}
