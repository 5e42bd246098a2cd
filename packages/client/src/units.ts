/** Amounts and prices as people write them. All arithmetic is on integers. */

/** USDC and outcome tokens have six decimals. */
const DECIMALS = 6;
const PRICE_SCALE_DIGITS = 6;
const MAX_PRICE = 1_000_000n;

/**
 * Native units of an amount in decimal. Throws `RangeError` for text that is not a decimal number
 * of at least 0, or has more decimals than the token.
 *
 * @example
 * ```ts
 * const amount = parseUnits("1.5"); // 1_500_000n
 * ```
 */
export function parseUnits(text: string, decimals = DECIMALS): bigint {
  const [, whole, fraction = ""] = /^(\d+)(?:\.(\d+))?$/.exec(text) ?? [];
  if (whole === undefined || fraction.length > decimals)
    throw new RangeError(`"${text}" is not an amount with at most ${decimals} decimals.`);
  return BigInt(whole + fraction.padEnd(decimals, "0"));
}

/**
 * An amount of native units in decimal, without trailing zeros. The opposite of `parseUnits`.
 * Throws `TypeError` for a number.
 *
 * @example
 * ```ts
 * console.log(formatUnits(1_500_000n)); // 1.5
 * ```
 */
export function formatUnits(units: bigint, decimals = DECIMALS): string {
  // In plain JavaScript a number with a fraction would become a wrong text.
  if (typeof units !== "bigint") throw new TypeError(`${String(units)} is not a bigint.`);
  const sign = units < 0n ? "-" : "";
  const digits = String(units < 0n ? -units : units).padStart(decimals + 1, "0");
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, "");
  const whole = digits.slice(0, digits.length - decimals);
  return `${sign}${whole}${fraction === "" ? "" : `.${fraction}`}`;
}

/**
 * A price on the wire, which is scaled by 1e6, of a price in USDC. Throws `RangeError` unless it is
 * above 0 and at most 1, with at most six decimals.
 *
 * @example
 * ```ts
 * const scaled = price(0.65); // 650_000
 * ```
 */
export function price(usdc: number | string): number {
  // The shortest decimal text of a number is exact. It has an exponent below 1e-6, which is too
  // low.
  const scaled = parseUnits(String(usdc), PRICE_SCALE_DIGITS);
  if (scaled < 1n || scaled > MAX_PRICE)
    throw new RangeError(`${usdc} is not a price above 0 and at most 1.`);
  return Number(scaled);
}
