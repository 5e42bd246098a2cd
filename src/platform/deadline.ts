/** The deadline `not_after`. Guards compare it with D1's instant, so what is late does nothing. */
import type { Precondition } from "./preconditions.ts";
import { Problem, problem } from "./problem.ts";
import { type Expr, expr } from "./sql.ts";
import { toWireTime } from "./time.ts";

/** Every rejection of a deadline reports the instant that it was compared with. */
export type InstantFact = { readonly instant: number };

/** Unix milliseconds at which the command may no longer take effect. Undefined: no deadline. */
export function beforeDeadline<Outcome>(
  at: Expr,
  notAfter: number | undefined,
  reject: (passed: Problem) => Outcome,
): readonly Precondition<InstantFact, Outcome>[] {
  if (notAfter === undefined) return [];
  const detail = `The command was not carried out before ${toWireTime(notAfter)}.`;
  return [
    {
      expr: expr`${at} < ${notAfter}`,
      reject: ({ instant }) => reject(deadlinePassed(instant, detail)),
    },
  ];
}

export function deadlinePassed(instant: number, detail: string): Problem {
  return problem("deadline_passed", detail, { server_time: toWireTime(instant) });
}
