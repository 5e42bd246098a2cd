/**
 * Limits on what a trade may give: those of the API key that trades, and those of the account's
 * policy. Both are preconditions of the guard, so no two trades can use the same room.
 */
import { toHex } from "../assets/amount.ts";
import { sumText, usedByKey } from "../auth/exposure.ts";
import { readLimits } from "../auth/key-limits.ts";
import type { Actor } from "../platform/actor.ts";
import { NOW } from "../platform/commit.ts";
import type { Precondition } from "../platform/preconditions.ts";
import { atom, type Expr, expr, uuid } from "../platform/sql.ts";
import { reject, type Result } from "./command.ts";

/** SQL over the record of the guard. */
type Trade = {
  readonly venue: Expr;
  /** What the trade would give. Absent for a request, which gives nothing. */
  readonly exposure?: Expr;
};

/** The limits of the key, and what counts against them, as JSON text. Null: it has no limits. */
export type KeyLimitFacts = { readonly key_limits: string | null };

type KeyUsed = { limits: string; used: string; venue: string; exposure: string };

/** Holds if the trade is within the limits of the key. A session has none. */
export function withinKeyLimits(
  { userId, credential }: Actor,
  { venue, exposure }: Trade,
  at: Expr,
): readonly Precondition<KeyLimitFacts, Result>[] {
  if (credential.kind === "session") return [];
  const { apiKeyId } = credential;
  const exceeded =
    exposure === undefined
      ? expr`0`
      : expr`${exposure} > (k.limits ->> 'max_usdc_per_trade')
        OR (k.limits ->> 'max_usdc_per_day' IS NOT NULL
          AND ${usedByKey({ userId, apiKeyId }, at)} + ${exposure}
            > (k.limits ->> 'max_usdc_per_day'))`;
  return [
    {
      expr: expr`NOT EXISTS (SELECT 1 FROM api_keys k WHERE k.api_key_id = ${uuid(apiKeyId)}
        AND k.limits IS NOT NULL
        AND ((k.limits ->> 'venues' IS NOT NULL
            AND ${venue} NOT IN (SELECT value FROM json_each(k.limits, '$.venues')))
          OR ${exceeded}))`,
      reject: ({ key_limits }) => (key_limits === null ? undefined : keyLimit(key_limits)),
    },
  ];
}

export function keyLimitFacts(
  { userId, credential }: Actor,
  { venue, exposure = atom("0") }: Trade,
): Readonly<Record<"key_limits", Expr>> {
  if (credential.kind === "session") return { key_limits: atom("NULL") };
  const { apiKeyId } = credential;
  return {
    key_limits: expr`SELECT json_object('limits', k.limits, 'venue', ${venue},
        'used', ${sumText(usedByKey({ userId, apiKeyId }, NOW))},
        'exposure', CAST(${exposure} AS TEXT)) || ''
      FROM api_keys k WHERE k.api_key_id = ${uuid(apiKeyId)} AND k.limits IS NOT NULL`,
  };
}

/** Undefined if a trade that ended meanwhile has made room. */
function keyLimit(facts: string): Result | undefined {
  // Safe cast: `keyLimitFacts` selects these members.
  const { limits: stored, used, venue, exposure } = JSON.parse(facts) as KeyUsed;
  const limits = readLimits(stored);
  const [given, before] = [BigInt(exposure), BigInt(used)];
  const { venues, maxUsdcPerTrade: perTrade, maxUsdcPerDay: perDay } = limits;
  if (venues !== null && !venues.some((allowed) => allowed === venue))
    return reject("key_limit", `The API key may not trade on ${venue}.`, {
      limit: "venues",
      maximum: null,
      used: null,
    });
  if (perTrade !== null && given > perTrade)
    return reject("key_limit", "The trade exceeds the API key's limit for one trade.", {
      limit: "max_usdc_per_trade",
      ...amounts({ maximum: perTrade, used: 0n, required: given }),
    });
  if (perDay !== null && before + given > perDay)
    return reject("key_limit", "The trade exceeds the API key's limit for a day.", {
      limit: "max_usdc_per_day",
      ...amounts({ maximum: perDay, used: before, required: given }),
    });
  return undefined;
}

/** What the trade requires beyond what is used. */
function amounts(of: { maximum: bigint; used: bigint; required: bigint }) {
  return { maximum: toHex(of.maximum), used: toHex(of.used), required: toHex(of.required) };
}
