/**
 * The preconditions of a verb, each stated once.
 *
 * Their conjunction is the guard of the batch, so that the database decides. If the guard did not
 * apply, the same list is evaluated to find the reason. So guard and rejection cannot disagree.
 */
import { and, type Columns, type Expr, first, join, raw, select, type Sql, sql } from "./sql.ts";

export type Precondition<Facts, Outcome> = {
  readonly expr: Expr;
  /**
   * The outcome if `expr` does not hold. Undefined if the command should be retried. May throw a
   * `Problem`.
   */
  readonly reject: (
    facts: Facts,
    db: D1Database,
  ) => Outcome | undefined | Promise<Outcome | undefined>;
};

export function guardOf(preconditions: readonly Precondition<never, unknown>[]): Expr {
  return and(preconditions.map((precondition) => precondition.expr));
}

/** Rejects with the first precondition that does not hold, in one read. Undefined if all hold. */
export async function rejectionOf<Facts, Outcome>(
  db: D1Database,
  check: {
    readonly preconditions: readonly Precondition<Facts, Outcome>[];
    /** Values that the rejections report, read together with the preconditions. */
    readonly facts: Columns & Readonly<Record<keyof Facts, Expr>>;
    /** `FROM … WHERE …` of the record that the command names. Omitted if it names none. */
    readonly from?: Sql;
    /** The outcome if that record does not exist. */
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
