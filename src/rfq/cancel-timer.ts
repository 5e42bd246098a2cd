/** What the guards of quotes and accepts ask of a cancel-after timer (cancel-after.ts). */
import { credentialOf } from "../auth/may-write.ts";
import type { Actor } from "../platform/actor.ts";
import { type Columns, type Expr, expr, type Sql, sql } from "../platform/sql.ts";
import { toWireTimeOrNull } from "../platform/time.ts";
import { reject, type Result } from "./command.ts";

/** Selects a row if the timer of the credential has run out. */
export function passedTimer(credential: Expr, at: Expr): Sql {
  return sql`SELECT 1 FROM cancel_timers t
    WHERE t.credential = ${credential} AND t.cancel_at <= ${at}`;
}

/** Guard condition of quotes and accepts: no timer of the quote's credential has run out. */
export function timerNotPassed(credential: Expr, at: Expr): Expr {
  return expr`NOT EXISTS (${passedTimer(credential, at)})`;
}

export function cancelAfterPassed(cancelAt: number | null): Result {
  return reject(
    "cancel_after_passed",
    "The cancel-after timer of this credential has run out. Set it again to place quotes.",
    { cancel_at: toWireTimeOrNull(cancelAt) },
  );
}

export type TimerFacts = { readonly cancel_at: number | null };

export function timerFacts(actor: Actor): Columns<keyof TimerFacts> {
  return {
    cancel_at: expr`SELECT t.cancel_at FROM cancel_timers t
      WHERE t.credential = ${credentialOf(actor)}`,
  };
}
