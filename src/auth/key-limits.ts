/** Limits of an API key on what it may trade and where it pays, fixed when the key is minted. */
import * as z from "zod";
import { toHex } from "../assets/amount.ts";
import { usdcLimit, venueField, venueOut } from "../assets/asset-fields.ts";
import { described, u256Out } from "../http/fields.ts";
import type { Config } from "../platform/config.ts";
import { invalidRequest } from "../platform/problem.ts";
import { MAX_VENUES, type Venue } from "../platform/venues.ts";

/** Null: no limit. Amounts are native units of USDC. */
export type KeyLimits = {
  readonly venues: readonly Venue[] | null;
  readonly maxUsdcPerTrade: bigint | null;
  readonly maxUsdcPerDay: bigint | null;
  /** Left out: the key pays anywhere. Otherwise only to the owner's listed addresses. */
  readonly paysTo?: ListedAddresses | undefined;
};
/** Those that the key names, in lower case. "all" of the owner's address book. */
type ListedAddresses = "all" | readonly string[];

export const NO_LIMITS: KeyLimits = { venues: null, maxUsdcPerTrade: null, maxUsdcPerDay: null };

export const KeyLimitsField = z
  .strictObject({
    venues: z
      .array(venueField, "must be a list of venues")
      .min(1, "must contain at least one venue, or be omitted to allow all")
      .max(MAX_VENUES)
      .nullable()
      .optional()
      .meta({ description: "Venues on which the key may request, quote and accept. Null: all" }),
    max_usdc_per_trade: described(
      usdcLimit.nullable().optional(),
      "The most that one quote or accept of the key may give, in native units of USDC. Tokens " +
        "count as 1 USDC each. Null: no limit",
    ),
    max_usdc_per_day: described(
      usdcLimit.nullable().optional(),
      "The most that the key may give in the current UTC hour and the 23 before it, in its matches " +
        "and open quotes. Null: no limit",
    ),
  })
  .transform((fields): KeyLimits => ({
    venues: fields.venues ?? null,
    maxUsdcPerTrade: fields.max_usdc_per_trade ?? null,
    maxUsdcPerDay: fields.max_usdc_per_day ?? null,
  }))
  .meta({ description: "Limits of the key, fixed when it is minted. Null or omitted: none." });

export const KeyLimitsOut = z
  .object({
    venues: described(
      z.array(venueOut("A venue of GET /config")).nullable(),
      "Venues on which the key may request, quote and accept. Null: all",
    ),
    max_usdc_per_trade: u256Out(
      "The most that one quote or accept may give, in native units of USDC. Null: no limit",
    ).nullable(),
    max_usdc_per_day: u256Out(
      "The most that matches of the last day and open quotes may give together. Null: no limit",
    ).nullable(),
  })
  .nullable()
  .meta({ description: "Limits of the key. Null: none" });

export function limitsView(limits: KeyLimits): NonNullable<z.input<typeof KeyLimitsOut>> {
  return {
    venues: limits.venues === null ? null : [...limits.venues],
    max_usdc_per_trade: limits.maxUsdcPerTrade === null ? null : toHex(limits.maxUsdcPerTrade),
    max_usdc_per_day: limits.maxUsdcPerDay === null ? null : toHex(limits.maxUsdcPerDay),
  };
}

/**
 * The stored text: equal limits have equal text, as before there was `pays_to`. Amounts are JSON
 * numbers, which SQLite compares exactly. `usdcLimit` keeps them within the integers that
 * JavaScript represents exactly, too.
 */
export function writeLimits(limits: KeyLimits): string {
  return JSON.stringify({
    venues: limits.venues === null ? null : [...new Set(limits.venues)].toSorted(),
    max_usdc_per_trade: numberOf(limits.maxUsdcPerTrade),
    max_usdc_per_day: numberOf(limits.maxUsdcPerDay),
    ...(limits.paysTo === undefined ? {} : { pays_to: limits.paysTo }),
  });
}

export function readKeyLimits(stored: string): KeyLimits {
  // Safe cast: only `writeLimits` writes the column.
  const limits = JSON.parse(stored) as {
    venues: Venue[] | null;
    max_usdc_per_trade: number | null;
    max_usdc_per_day: number | null;
    pays_to?: ListedAddresses;
  };
  return {
    venues: limits.venues,
    maxUsdcPerTrade: bigintOf(limits.max_usdc_per_trade),
    maxUsdcPerDay: bigintOf(limits.max_usdc_per_day),
    paysTo: limits.pays_to,
  };
}

/** Rejects venues that the deployment does not serve: a mistyped one would forbid every trade. */
export function checkKeyLimits(limits: KeyLimits | null, { VENUES }: Pick<Config, "VENUES">): void {
  const served = VENUES.map(({ venue_id }) => venue_id);
  const errors = (limits?.venues ?? []).flatMap((venue, index) =>
    served.includes(venue)
      ? []
      : [{ path: `body.limits.venues.${index}`, message: `must be one of ${served.join(", ")}` }],
  );
  if (errors.length > 0) throw invalidRequest(errors);
}

function numberOf(amount: bigint | null): number | null {
  return amount === null ? null : Number(amount);
}

function bigintOf(amount: number | null): bigint | null {
  return amount === null ? null : BigInt(amount);
}
