/** Computes EIP-1559 fees of a transaction and of its replacements, in wei per gas. Pure. */
import { parseGwei } from "viem";
import type { ChainConfig } from "../platform/config.ts";

export type Fees = { readonly maxFee: bigint; readonly priorityFee: bigint };
/** What the head's block and the node ask for. */
export type FeeMarket = { readonly baseFee: bigint; readonly tip: bigint };
export type FeeLimits = {
  readonly maxFee: bigint;
  readonly minTip: bigint;
  readonly maxTip: bigint;
};

/** Default `min_tip_gwei`. Nodes of Polygon and Amoy reject less, even if they suggest less. */
const MIN_TIP_GWEI: Readonly<Record<number, number>> = { 137: 25, 80_002: 25 };

export function feeLimits(chain: ChainConfig): FeeLimits {
  return {
    maxFee: parseGwei(String(chain.max_fee_gwei)),
    minTip: parseGwei(String(chain.min_tip_gwei ?? MIN_TIP_GWEI[chain.chain_id] ?? 0)),
    maxTip: parseGwei(String(chain.max_tip_gwei)),
  };
}

/** Fees of the first attempt: the base fee may double. Undefined: it alone exceeds the limit. */
export function firstFees(market: FeeMarket, limits: FeeLimits): Fees | undefined {
  if (market.baseFee > limits.maxFee) return undefined;
  const tip = tipOf(market, limits);
  const maxFee = smaller(2n * market.baseFee + tip, limits.maxFee);
  return { maxFee, priorityFee: smaller(tip, maxFee) };
}

/** Whether a block producer now earns less from these fees than the market pays. */
export function areTooLow(fees: Fees, market: FeeMarket, limits: FeeLimits): boolean {
  return smaller(fees.priorityFee, fees.maxFee - market.baseFee) < tipOf(market, limits);
}

/**
 * Fees that replace `highest`, those of the last attempt. Both rise by at least 12.5 %, because
 * nodes demand 10 %, and to the market's if these are higher. Undefined: the limits forbid it.
 */
export function replacementFees(
  highest: Fees,
  market: FeeMarket,
  limits: FeeLimits,
): Fees | undefined {
  const tip = tipOf(market, limits);
  const maxFee = larger(bumped(highest.maxFee), smaller(2n * market.baseFee + tip, limits.maxFee));
  const priorityFee = larger(bumped(highest.priorityFee), smaller(tip, maxFee));
  return maxFee > limits.maxFee || priorityFee > limits.maxTip || priorityFee > maxFee
    ? undefined
    : { maxFee, priorityFee };
}

/**
 * The tip that the market asks for, within the limits. At most half of the highest tip, because a
 * replacement must offer a higher tip too, even if only the base fee has risen.
 */
function tipOf(market: FeeMarket, limits: FeeLimits): bigint {
  return larger(limits.minTip, smaller(market.tip, limits.maxTip / 2n));
}

function bumped(fee: bigint): bigint {
  return (fee * 9n + 7n) / 8n + (fee === 0n ? 1n : 0n);
}

function larger(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

/** Gas that a sweep uses for one address: its share of the call, the clone and the transfer. */
const SWEEP_GAS = 58_000n;
const WEI_PER_COIN = 10n ** 18n;

/** The smallest holding in USDC units that a sweep in the background moves. */
export function smallestSweep(
  chain: { readonly min_sweep: number; readonly native_price?: number | undefined },
  market: FeeMarket,
): bigint {
  const setting = BigInt(chain.min_sweep);
  if (chain.native_price === undefined) return setting;
  const wei = SWEEP_GAS * (market.baseFee + market.tip);
  const gas = (wei * BigInt(chain.native_price)) / WEI_PER_COIN + 1n;
  return larger(gas, setting);
}
