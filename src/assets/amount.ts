import { z } from "zod";
import type { Source } from "../http/fields.ts";
import { parseJsonInteger } from "../http/json.ts";

export { parseJsonInteger };

export const U256_MAX = 2n ** 256n - 1n;

/** U256 out: minimal lower-case hex. */
export function toHex(amount: bigint): `0x${string}` {
  return `0x${amount.toString(16)}`;
}

/**
 * U256 in, as a caller spells it: decimal string, `0x` hex string, or the source text of a JSON number (`JsonNumber`).
 * Returns undefined for anything that is not an integer in 0 … 2^256−1.
 */
export function parseU256(text: string, source: Source): bigint | undefined {
  const value = source === "number" ? parseJsonInteger(text) : parseSpelling(text);
  return value === undefined || value < 0n || value > U256_MAX ? undefined : value;
}

/** Leading zeros mean nothing, however many; a number of more digits than a U256 has is not even read. */
function parseSpelling(text: string): bigint | undefined {
  const [, decimal, hex] = /^(?:0*([0-9]{1,78})|0x0*([0-9a-fA-F]{1,64}))$/.exec(text) ?? [];
  if (decimal !== undefined) return BigInt(decimal);
  return hex === undefined ? undefined : BigInt(`0x${hex}`);
}

export const U256Out = z.string().regex(/^0x(0|[1-9a-f][0-9a-f]{0,63})$/);
