/**
 * The preconditions of a verb, each stated once.
 *
 * Their conjunction is the guard of the batch, so that the database decides. If the guard did not
 * apply, the same list is evaluated to find the reason. So guard and rejection cannot disagree.
 */
import {
  all,
  and,
  batch,
  type Columns,
  type Expr,
  join,
  jsonArray,
  raw,
  type Sql,
  type SqlParam,
  sql,
} from "./sql.ts";
import { Problem, type ProblemData } from "./problem.ts";

export type Precondition<Facts, Outcome> = {
  readonly expr: Expr;
  /** The outcome if `expr` does not hold. Undefined: the command is retried. May throw. */
  readonly reject: (facts: Facts) => Outcome | undefined;
};

/** A precondition whose rejection throws. */
export function required<Facts>(
  expr: Expr,
  rejection: (facts: Facts) => ProblemData,
): Precondition<Facts, never> {
  return {
    expr,
    reject: (facts) => {
      throw new Problem(rejection(facts));
    },
  };
}

export function guardOf(preconditions: readonly { readonly expr: Expr }[]): Expr {
  return and(preconditions.map((precondition) => precondition.expr));
}

/** Why a guard did not apply. Questions of equal `text` are answered by one statement. */
export type Question<Outcome> = {
  /** JSON arrays: `record`, what holds and the facts of the record, or NULL, and all other facts. */
  readonly text: string;
  readonly params: readonly SqlParam[];
  readonly answer: (row: Answer) => Outcome | undefined;
};
type Answer = { readonly record: string | null; readonly apart: string };

type Check<Facts, Own extends keyof Facts & string, Outcome> = {
  readonly preconditions: readonly Precondition<Facts, Outcome>[];
  /** Values of the record that the rejections report. */
  readonly facts: Columns<Own>;
  /** The facts that exist without the record, such as the state of the credential. */
  readonly apart: Columns<Exclude<keyof Facts & string, Own>>;
  /** `FROM … WHERE …` of the record that the command names. Omitted if it names none. */
  readonly from?: Sql;
  /** The outcome if that record does not exist. */
  readonly missing?: (apart: Omit<Facts, Own>) => Outcome;
};

/** Asks for the first precondition that does not hold. The outcome is undefined if all hold. */
export function questionOf<Facts, Own extends keyof Facts & string, Outcome>(
  check: Check<Facts, Own, Outcome>,
): Question<Outcome> {
  const { preconditions, facts, apart, from = sql``, missing } = check;
  const record = jsonArray([
    jsonArray(preconditions.map((precondition) => precondition.expr)),
    jsonArray(Object.values<Expr>(facts)),
  ]);
  const { text, params } = sql`(SELECT ${record} ${from}) AS record,
    ${jsonArray(Object.values<Expr>(apart))} AS apart`;
  return {
    text,
    params,
    answer: (row) => {
      const known = named<Omit<Facts, Own>>(Object.keys(apart), JSON.parse(row.apart) as unknown[]);
      if (row.record === null) return missing?.(known);
      const [held, values] = JSON.parse(row.record) as [unknown[], unknown[]];
      const failed = preconditions.find((_, index) => held[index] !== 1);
      const own = named<Pick<Facts, Own>>(Object.keys(facts), values);
      // Safe cast: together they are all members of `Facts`.
      return failed?.reject({ ...own, ...known } as Facts);
    },
  };
}

/** Safe cast: the columns were selected in the order of their names. */
function named<Facts>(names: readonly string[], values: readonly unknown[]): Facts {
  return Object.fromEntries(names.map((name, index) => [name, values[index]])) as Facts;
}

type Row = Answer & { readonly n: number };

/** Answers with one read: a statement per distinct text, with the parameters of its questions. */
export async function ask<Outcome>(
  db: D1Database,
  questions: readonly Question<Outcome>[],
): Promise<(Outcome | undefined)[]> {
  const groups = [...Map.groupBy(questions, ({ text }) => text)];
  const [only, ...more] = groups.map(([text, asked]) => askAll(text, asked));
  if (only === undefined) return [];
  // D1 repeats a read alone after a fault of its own, but no batch.
  const results: Row[][] =
    more.length === 0 ? [await all<Row>(db, only)] : await batch<Row>(db, [only, ...more]);
  const outcomes = new Map<Question<Outcome>, Outcome | undefined>();
  groups.forEach(([, asked], index) => {
    for (const row of results[index] ?? []) {
      const question = asked[row.n];
      if (question !== undefined) outcomes.set(question, question.answer(row));
    }
  });
  return questions.map((question) => outcomes.get(question));
}

/** Parameters are columns of a table that is built once, so no condition parses JSON per row. */
function askAll(text: string, asked: readonly Question<unknown>[]): Sql {
  const params = asked.map((question) => question.params);
  const [first = "", ...rest] = text.split("?");
  if (params.some((list) => list.length !== rest.length))
    throw new Error(`the text contains a question mark that is not a parameter: ${text}`);
  const columns = rest.map((_, index) => raw(`value ->> ${index} AS p${index}`));
  const body = first + rest.map((part, index) => `asked.p${index}${part}`).join("");
  return sql`WITH asked AS MATERIALIZED (
      SELECT ${join([raw("key AS n"), ...columns], ", ")} FROM json_each(${JSON.stringify(params)}))
    SELECT asked.n AS n, ${raw(body)} FROM asked`;
}
