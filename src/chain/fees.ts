/** Computes EIP-1559 fees of a transaction and of its replacements, in wei per gas. Pure. */

export type Fees = { readonly maxFee: bigint; readonly priorityFee: bigint };
export type Market = { readonly baseFee: bigint; readonly tip: bigint };

const GWEI = 1_000_000_000n;

export function ceilingOf(maxFeeGwei: number): bigint {
  return BigInt(maxFeeGwei) * GWEI;
}

/**
 * Fees of the first attempt. They allow the base fee to double, which takes at least six full
 * blocks. Undefined if the base fee alone is above the ceiling.
 */
export function firstFees(market: Market, ceiling: bigint): Fees | undefined {
  if (market.baseFee > ceiling) return undefined;
  const maxFee = smaller(2n * market.baseFee + market.tip, ceiling);
  return { maxFee, priorityFee: smaller(market.tip, maxFee) };
}

/**
 * Fees that replace `highest`, the fees of the last stored attempt. Both rise by at least 12.5 %,
 * because nodes demand 10 %, and to the market's fees where those are higher. Undefined if the
 * ceiling does not allow that.
 */
export function replacementFees(highest: Fees, market: Market, ceiling: bigint): Fees | undefined {
  const maxFee = larger(bumped(highest.maxFee), smaller(2n * market.baseFee + market.tip, ceiling));
  const priorityFee = larger(bumped(highest.priorityFee), smaller(market.tip, maxFee));
  return maxFee > ceiling || priorityFee > maxFee ? undefined : { maxFee, priorityFee };
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
