/** Limits of a key and of the policy. Both are in the guard, so no two trades use the same part. */
import { toHex } from "../assets/amount.ts";
import { sumText, usedByKey, usedByUser } from "../auth/exposure.ts";
import { readKeyLimits } from "../auth/key-limits.ts";
import { scopeMissing } from "../auth/scope.ts";
import { effectivePolicy, sessionsMayTrade } from "../auth/policy.ts";
import type { Actor } from "../platform/actor.ts";
import { NOW } from "../platform/commit.ts";
import type { Precondition } from "../platform/preconditions.ts";
import { atom, type Columns, type Expr, expr, uuid } from "../platform/sql.ts";
import { refused, reject, type Result } from "./command.ts";

/** Who trades. `key` is NULL for a session. */
type Trader = {
  readonly user: Expr;
  readonly key: Expr;
  /** The quote that a new one replaces, and whose part of the limits it may use. */
  readonly replaces?: Expr;
};

/** SQL over the record of the guard. */
type Trade = {
  readonly venue: Expr;
  /** What the trade would give. Absent for a request, which gives nothing. */
  readonly exposure?: Expr;
};

export function traderOf({ userId, credential }: Actor): Trader {
  const key = credential.kind === "api_key" ? uuid(credential.apiKeyId) : atom("NULL");
  return { user: uuid(userId), key };
}

/** Condition: the trade is within the limits of the key. A session has none. */
export function keyAllows(trader: Trader, { venue, exposure }: Trade, at: Expr): Expr {
  const exceeded =
    exposure === undefined
      ? expr`0`
      : expr`${exposure} > (k.limits ->> 'max_usdc_per_trade')
        OR (k.limits ->> 'max_usdc_per_day' IS NOT NULL
          AND ${usedByKey(trader, at)} + ${exposure}
            > (k.limits ->> 'max_usdc_per_day'))`;
  return expr`NOT EXISTS (SELECT 1 FROM api_keys k WHERE k.api_key_id = ${trader.key}
    AND k.limits IS NOT NULL
    AND ((k.limits ->> 'venues' IS NOT NULL
        AND instr(k.limits ->> 'venues', '"' || ${venue} || '"') = 0)
      OR ${exceeded}))`;
}

/** Condition: the trade is within the policy of the account. */
export function accountAllows(trader: Trader, exposure: Expr, at: Expr): Expr {
  return expr`NOT EXISTS (SELECT 1 FROM ${effectivePolicy(trader.user, at)} p
    WHERE p.max_trade_usdc_per_day IS NOT NULL
      AND ${usedByUser(trader, at)} + ${exposure} > p.max_trade_usdc_per_day)`;
}

/** Condition: the trader uses a key, or the account lets sessions trade. */
export function sessionAllowed({ user, key }: Trader, at: Expr): Expr {
  return expr`${key} IS NOT NULL OR ${sessionsMayTrade(user, at)}`;
}

/** JSON text. Null: there is no such limit. */
export type LimitFacts = {
  readonly key_limits: string | null;
  readonly account_limits: string | null;
};

/** What the rejections below report. */
export function limitFacts(trader: Trader, venue: Expr): Columns<keyof LimitFacts> {
  return {
    key_limits: expr`SELECT json_object('limits', k.limits, 'venue', ${venue},
        'used', ${sumText(usedByKey(trader, NOW))}) || ''
      FROM api_keys k WHERE k.api_key_id = ${trader.key} AND k.limits IS NOT NULL`,
    account_limits: expr`SELECT json_object('maximum', CAST(p.max_trade_usdc_per_day AS TEXT),
        'used', ${sumText(usedByUser(trader, NOW))}) || ''
      FROM ${effectivePolicy(trader.user, NOW)} p WHERE p.max_trade_usdc_per_day IS NOT NULL`,
  };
}

/** The limits of a verb whose guard has parameters, and that gives nothing. */
export function withinLimits<Facts extends LimitFacts>(
  actor: Actor,
  venue: Expr,
  at: Expr,
): Precondition<Facts, Result> {
  const trader = traderOf(actor);
  return actor.credential.kind === "session"
    ? { expr: sessionAllowed(trader, at), reject: () => sessionRejected(actor) }
    : { expr: keyAllows(trader, { venue }, at), reject: (facts: Facts) => keyLimit(facts, 0n) };
}

/** The session's scopes may be a few seconds old. */
export function sessionRejected(actor: Actor): Result | undefined {
  return actor.credential.kind === "session" ? refused(scopeMissing("trade", ["read"])) : undefined;
}

/** `required` is what the trade would give. Undefined if it fits meanwhile. */
export function keyLimit({ key_limits: facts }: LimitFacts, required: bigint): Result | undefined {
  if (facts === null) return undefined;
  // Safe cast: `limitFacts` selects these members.
  const key = JSON.parse(facts) as { limits: string; used: string; venue: string };
  const { venues, maxUsdcPerTrade: perTrade, maxUsdcPerDay: perDay } = readKeyLimits(key.limits);
  const used = BigInt(key.used);
  if (venues !== null && !venues.some((allowed) => allowed === key.venue))
    return reject("key_limit", `The API key may not trade on ${key.venue}.`, {
      limit: "venues",
      maximum: null,
      used: null,
    });
  if (perTrade !== null && required > perTrade)
    return reject("key_limit", "The trade exceeds the API key's limit for one trade.", {
      limit: "max_usdc_per_trade",
      ...amounts({ maximum: perTrade, used: 0n, required }),
    });
  if (perDay !== null && used + required > perDay)
    return reject("key_limit", "The trade exceeds the API key's limit for a day.", {
      limit: "max_usdc_per_day",
      ...amounts({ maximum: perDay, used, required }),
    });
  return undefined;
}

export function accountLimit(
  { account_limits: facts }: LimitFacts,
  required: bigint,
): Result | undefined {
  if (facts === null) return undefined;
  // Safe cast: `limitFacts` selects these members.
  const policy = JSON.parse(facts) as { maximum: string; used: string };
  const [maximum, used] = [BigInt(policy.maximum), BigInt(policy.used)];
  if (used + required <= maximum) return undefined;
  return reject("account_limit", "The trade exceeds the limit of the account's policy for a day.", {
    limit: "max_trade_usdc_per_day",
    ...amounts({ maximum, used, required }),
  });
}

/** What the trade requires beyond what is used. */
function amounts(of: { maximum: bigint; used: bigint; required: bigint }) {
  return { maximum: toHex(of.maximum), used: toHex(of.used), required: toHex(of.required) };
}
