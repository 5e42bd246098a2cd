/** The account policy for withdrawals. An approval, maybe days later, checks it again. */
import { toHex } from "../assets/amount.ts";
import { sumText, withdrawnLastDay } from "../auth/exposure.ts";
import { effectivePolicy } from "../auth/policy.ts";
import { NOW } from "../platform/commit.ts";
import { type Precondition, required } from "../platform/preconditions.ts";
import type { Actor } from "../platform/actor.ts";
import { problem, type ProblemData } from "../platform/problem.ts";
import { type Columns, type Expr, expr, FALSE, TRUE } from "../platform/sql.ts";
import { toWireTime, toWireTimeOrNull } from "../platform/time.ts";

/** A withdrawal in SQL. */
type Withdrawing = {
  readonly user: Expr;
  readonly chain: Expr;
  readonly address: Expr;
  readonly amount: Expr;
  /** The amount as decimal text. It may exceed what an INTEGER can hold. */
  readonly amountText: Expr;
  /** The MAC of the address's entry in the address book. NULL: it is not listed. */
  readonly listed: Expr;
  /** The id of one that is to be approved, which does not count twice. */
  readonly withdrawal?: Expr;
};

export type PolicyFacts = {
  /** When the address becomes usable. Null: it is not listed. */
  readonly address_active_from: number | null;
  /** The limit of the day, what is used of it and the amount, as JSON text. Null: no limit. */
  readonly withdraw_limit: string | null;
};

export function policyFacts(withdrawing: Withdrawing): Columns<keyof PolicyFacts> {
  const { user, chain, address, amountText, listed, withdrawal } = withdrawing;
  return {
    address_active_from: expr`SELECT b.active_from FROM withdrawal_addresses b
      WHERE b.user_id = ${user} AND b.chain = ${chain} AND b.address = ${address}
        AND b.mac = ${listed}`,
    withdraw_limit: expr`SELECT json_object(
        'maximum', CAST(p.withdraw_max_usdc_per_day AS TEXT),
        'used', ${sumText(withdrawnLastDay(user, NOW, withdrawal))},
        'amount', ${amountText}) || ''
      FROM ${effectivePolicy(user, NOW)} p WHERE p.withdraw_max_usdc_per_day IS NOT NULL`,
  };
}

/** Condition: the address is in the owner's address book, and its delay has passed. */
function isListed({ user, chain, address, listed }: Withdrawing, at: Expr): Expr {
  return expr`EXISTS (SELECT 1 FROM withdrawal_addresses b
    WHERE b.user_id = ${user} AND b.chain = ${chain} AND b.address = ${address}
      AND b.mac = ${listed} AND b.active_from <= ${at})`;
}

function notListed(whose: string, { address_active_from: activeFrom }: PolicyFacts): ProblemData {
  return {
    code: "address_not_listed",
    detail:
      activeFrom === null
        ? `${whose} allows only addresses of the address book. This one is not listed.`
        : `The address is usable from ${toWireTime(activeFrom)}.`,
    extensions: { active_from: toWireTimeOrNull(activeFrom) },
  };
}

/** Rejections: `address_not_listed`. What the key pays to is part of its seal. */
export function allowedByKey(
  credential: Actor["credential"],
  withdrawing: Withdrawing & { readonly toAddress: string },
  at: Expr,
): readonly Precondition<PolicyFacts, never>[] {
  const paysTo = credential.kind === "api_key" ? credential.paysTo : undefined;
  if (paysTo === undefined) return [];
  const isNamed = paysTo === "all" || paysTo.includes(withdrawing.toAddress.toLowerCase());
  return [
    required(isNamed ? TRUE : FALSE, () => ({
      code: "address_not_listed",
      detail: "The API key pays only to the addresses that it names.",
      extensions: { active_from: null },
    })),
    required(isListed(withdrawing, at), (facts) => notListed("The API key", facts)),
  ];
}

/** Rejections: `address_not_listed` and `account_limit`. */
export function allowedByPolicy(
  withdrawing: Withdrawing,
  at: Expr,
): readonly Precondition<PolicyFacts, never>[] {
  const { user, amount, withdrawal } = withdrawing;
  return [
    required(
      expr`NOT EXISTS (SELECT 1 FROM ${effectivePolicy(user, at)} p
      WHERE p.withdraw_listed_only = 1 AND NOT ${isListed(withdrawing, at)})`,
      (facts) => notListed("The account's policy", facts),
    ),
    {
      expr: expr`NOT EXISTS (SELECT 1 FROM ${effectivePolicy(user, at)} p
      WHERE p.withdraw_max_usdc_per_day IS NOT NULL
        AND ${withdrawnLastDay(user, at, withdrawal)} + ${amount} > p.withdraw_max_usdc_per_day)`,
      reject: dailyLimitReached,
    },
  ];
}

/** Throws `account_limit`. Undefined if it fits meanwhile. */
function dailyLimitReached({ withdraw_limit: facts }: PolicyFacts): undefined {
  if (facts === null) return undefined;
  // Safe cast: `policyFacts` selects these members.
  const limit = JSON.parse(facts) as { maximum: string; used: string; amount: string };
  const [maximum, used, amount] = [BigInt(limit.maximum), BigInt(limit.used), BigInt(limit.amount)];
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
