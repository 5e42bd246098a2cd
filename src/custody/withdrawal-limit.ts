/**
 * The account policy's `withdraw_max_usdc_per_day`. Orders and approvals check it, because a
 * withdrawal may be approved on another day than it was asked for.
 */
import { toHex } from "../assets/amount.ts";
import { sumText, withdrawnLastDay } from "../auth/exposure.ts";
import { effectivePolicy } from "../auth/policy.ts";
import { NOW } from "../platform/commit.ts";
import type { Precondition } from "../platform/preconditions.ts";
import { problem } from "../platform/problem.ts";
import { type Columns, type Expr, expr } from "../platform/sql.ts";

/** Who withdraws. `withdrawal` is the id of the one to be approved, which does not count twice. */
type Withdrawing = { readonly user: Expr; readonly withdrawal?: Expr };

/** The amount is within the limit of the day, or there is none. `units` reads it from the facts. */
export function withinDailyLimit<Facts extends DailyLimitFacts>(
  { user, withdrawal }: Withdrawing,
  amount: Expr,
  { at, units }: { readonly at: Expr; readonly units: (facts: Facts) => bigint },
): Precondition<Facts, never> {
  return {
    expr: expr`NOT EXISTS (SELECT 1 FROM ${effectivePolicy(user, at)} p
      WHERE ${withdrawnLastDay(user, at, withdrawal)} + ${amount} > p.withdraw_max_usdc_per_day)`,
    reject: (facts) => dailyLimitReached(facts, units(facts)),
  };
}

/** The limit and what is used of it, as JSON text. Null: no limit. */
export type DailyLimitFacts = { readonly withdraw_limit: string | null };

export function dailyLimitFacts({ user, withdrawal }: Withdrawing): Columns<keyof DailyLimitFacts> {
  return {
    withdraw_limit: expr`SELECT json_object(
        'maximum', CAST(p.withdraw_max_usdc_per_day AS TEXT),
        'used', ${sumText(withdrawnLastDay(user, NOW, withdrawal))}) || ''
      FROM ${effectivePolicy(user, NOW)} p WHERE p.withdraw_max_usdc_per_day IS NOT NULL`,
  };
}

/** Throws `account_limit`. Undefined if it fits meanwhile. */
function dailyLimitReached({ withdraw_limit: facts }: DailyLimitFacts, amount: bigint): undefined {
  if (facts === null) return undefined;
  // Safe cast: `dailyLimitFacts` selects these members.
  const limit = JSON.parse(facts) as { maximum: string; used: string };
  const [maximum, used] = [BigInt(limit.maximum), BigInt(limit.used)];
  if (used + amount <= maximum) return undefined;
  throw problem(
    "account_limit",
    "The withdrawal exceeds the limit of the account's policy for a day.",
    {
      limit: "withdraw_max_usdc_per_day",
      maximum: toHex(maximum),
      used: toHex(used),
      required: toHex(amount),
    },
  );
}
