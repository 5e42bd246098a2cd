import type { Source } from "../http/fields.ts";
import { parseJsonInteger } from "../http/json.ts";

export const U256_MAX = 2n ** 256n - 1n;

/** A U256 in responses: minimal lower-case hexadecimal. */
export function toHex(amount: bigint): `0x${string}` {
  return `0x${amount.toString(16)}`;
}

/** A U256: decimal, hexadecimal with `0x`, or the source of a JSON number. Undefined if invalid. */
export function parseU256(text: string, source: Source): bigint | undefined {
  const value = source === "number" ? parseJsonInteger(text) : parseSpelling(text);
  return value === undefined || value < 0n || value > U256_MAX ? undefined : value;
}

/** Accepts any number of leading zeros. Longer numbers than a U256 are rejected before parsing. */
function parseSpelling(text: string): bigint | undefined {
  const [, decimal, hex] = /^(?:0*([0-9]{1,78})|0x0*([0-9a-fA-F]{1,64}))$/.exec(text) ?? [];
  if (decimal !== undefined) return BigInt(decimal);
  return hex === undefined ? undefined : BigInt(`0x${hex}`);
}
