/** EIP-1559 fees of a transaction and of its replacements. Pure; all in wei per gas. */

export type Fees = { readonly maxFee: bigint; readonly priorityFee: bigint };
export type Market = { readonly baseFee: bigint; readonly tip: bigint };

const GWEI = 1_000_000_000n;

export function ceilingOf(maxFeeGwei: number): bigint {
  return BigInt(maxFeeGwei) * GWEI;
}

/** Room for the base fee to double, which takes at least six full blocks. Undefined when even the base fee is above the ceiling. */
export function firstFees(market: Market, ceiling: bigint): Fees | undefined {
  if (market.baseFee > ceiling) return undefined;
  const maxFee = smaller(2n * market.baseFee + market.tip, ceiling);
  return { maxFee, priorityFee: smaller(market.tip, maxFee) };
}

/**
 * Fees that replace `highest`, the highest attempt stored: both raised by 12.5 % at least (nodes want 10 %), and to the
 * market's where that is more. Undefined when the ceiling does not allow it: then the stored attempt stays the last.
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
