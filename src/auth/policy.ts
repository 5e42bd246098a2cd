/**
 * The account policy: limits that a user sets on all of their credentials. A stricter value applies
 * at once. A looser one waits for AUTH_SECURITY_DELAY_SECS, so that its owner can cancel it if a
 * thief requested it. Nothing applies it: guards compare `active_from` with the instant.
 */
import { isDeepStrictEqual } from "node:util";
import * as z from "zod";
import { toHex } from "../assets/amount.ts";
import { usdcLimit } from "../assets/asset-fields.ts";
import { boolean, described, u256Out, timeOrNullOut } from "../http/fields.ts";
import { atom, type Columns, type Expr, expr, type Sql, sql } from "../platform/sql.ts";

/** Amounts are native units of USDC. Null: no limit. */
export type Policy = {
  readonly sessions_trade: boolean;
  readonly max_trade_usdc_per_day: bigint | null;
  readonly withdraw_max_usdc_per_day: bigint | null;
  readonly withdraw_listed_only: boolean;
  readonly withdraw_approval_above: bigint | null;
};

export const DEFAULT_POLICY: Policy = {
  sessions_trade: true,
  max_trade_usdc_per_day: null,
  withdraw_max_usdc_per_day: null,
  withdraw_listed_only: false,
  withdraw_approval_above: null,
};

const limit = (description: string) => described(usdcLimit.nullable().optional(), description);

export const policyFields = {
  sessions_trade: described(
    boolean.optional(),
    "False: sessions carry `read` only, and mint no trade keys",
  ),
  max_trade_usdc_per_day: limit(
    "The most that all credentials may give in trades of the last day and open quotes. Null: no limit",
  ),
  withdraw_max_usdc_per_day: limit(
    "The most that withdrawals of the last day may add up to, tokens at 1 USDC. Null: no limit",
  ),
  withdraw_listed_only: described(
    boolean.optional(),
    "True: only active addresses of the address book receive withdrawals",
  ),
  withdraw_approval_above: limit(
    "A withdrawal that lifts the sum of the last day's unapproved ones above it waits for your " +
      "approval. Null: none does",
  ),
};

const amountOut = (description: string) => u256Out(`${description}. Null: no limit`).nullable();

const policyOut = z.object({
  sessions_trade: described(z.boolean(), "Whether sessions may trade and mint trade keys"),
  max_trade_usdc_per_day: amountOut("The most that all credentials may give in a day"),
  withdraw_max_usdc_per_day: amountOut("The most that withdrawals of a day may add up to"),
  withdraw_listed_only: described(
    z.boolean(),
    "Whether only active addresses of the address book receive withdrawals",
  ),
  withdraw_approval_above: amountOut("The sum of a day's withdrawals that need no approval"),
});

export const PolicyState = z
  .object({
    policy: policyOut.meta({ description: "The policy that applies now" }),
    pending: policyOut.nullable().meta({
      description: "The whole policy that applies from `active_from`. Null: none waits",
    }),
    active_from: timeOrNullOut("When `pending` applies"),
    used: z
      .object({
        trade_usdc: u256Out("What counts against max_trade_usdc_per_day"),
        withdraw_usdc: u256Out("What counts against withdraw_max_usdc_per_day"),
      })
      .meta({ description: "What the account has used" }),
  })
  .meta({ id: "PolicyState" });

/** A policy on the wire. Null: no limit. */
export type PolicyView = {
  sessions_trade: boolean;
  max_trade_usdc_per_day: string | null;
  withdraw_max_usdc_per_day: string | null;
  withdraw_listed_only: boolean;
  withdraw_approval_above: string | null;
};
export function policyView(policy: Policy): PolicyView {
  return mapPolicy((field) => {
    const value = policy[field];
    return typeof value === "bigint" ? toHex(value) : value;
  });
}

/** Safe casts: `value` gives each field the type that it has in `Of`. */
function mapPolicy<Of extends Record<keyof Policy, unknown>>(
  value: (field: keyof Policy) => Of[keyof Of],
): Of {
  const fields = Object.keys(DEFAULT_POLICY) as (keyof Policy)[];
  return Object.fromEntries(fields.map((field) => [field, value(field)])) as Of;
}

/** A row of `account_policies` with the columns `POLICY_COLUMNS`. */
export type PolicyRow = { readonly activeFrom: number } & {
  readonly [Field in keyof Policy]: Policy[Field] extends boolean ? number : number | null;
};
export const POLICY_COLUMNS: Columns = {
  activeFrom: atom("active_from"),
  ...Object.fromEntries(Object.keys(DEFAULT_POLICY).map((field) => [field, atom(field)])),
};

/** D1 returns the amounts exactly, because `usdcLimit` keeps them below 2^53. */
export function policyOf(row: PolicyRow): Policy {
  return mapPolicy((field) => {
    const value = row[field];
    if (typeof DEFAULT_POLICY[field] === "boolean") return value === 1;
    return value === null ? null : BigInt(value);
  });
}

/** How much a value allows: a looser one allows more. */
function looseness(field: keyof Policy, policy: Policy): bigint {
  const value = policy[field];
  if (typeof value !== "boolean") return value ?? 2n ** 256n;
  return BigInt(field === "withdraw_listed_only" ? !value : value);
}

export type PolicyChange = { readonly [Field in keyof Policy]?: Policy[Field] | undefined };

/** A value that is not looser than the current one applies now, a looser one waits in `pending`. */
export function mergePolicy(
  { current, pending }: { current: Policy; pending: Policy | null },
  change: PolicyChange,
): { current: Policy; pending: Policy | null } {
  const before = pending ?? current;
  const target: Policy = mapPolicy((field) => {
    const value = change[field];
    return value === undefined ? before[field] : value;
  });
  const merged: Policy = mapPolicy((field) =>
    looseness(field, target) < looseness(field, current) ? target[field] : current[field],
  );
  return { current: merged, pending: isDeepStrictEqual(merged, target) ? null : target };
}

/** The row of the policy that applies at the instant. No row if the user has never set one. */
export function effectivePolicy(userId: Expr, at: Expr): Sql {
  return sql`(SELECT * FROM account_policies WHERE user_id = ${userId} AND active_from <= ${at}
    ORDER BY active_from DESC LIMIT 1)`;
}

/** Condition: the account's sessions may trade, and mint keys that trade. */
export function sessionsMayTrade(userId: Expr, at: Expr): Expr {
  return expr`NOT EXISTS (SELECT 1 FROM ${effectivePolicy(userId, at)} p
    WHERE p.sessions_trade = 0)`;
}
