/** The key of `small_deposits`: short, because anyone can cause any number of rows. */
import { createHash } from "node:crypto";

/** Hexadecimal digits of the part that is the same for all transfers of a token to an address. */
export const PAIR_DIGITS = 16;
/** The highest key of such a part is the part and this. */
export const KEY_END = "ff".repeat(9);

/**
 * 17 bytes as hexadecimal text. Larger amounts sort first, so that many tiny transfers to somebody
 * else's address cannot keep the others from being counted.
 *
 * It contains the token and not the asset, because settings may rename a venue.
 */
export function smallDepositKey(transfer: {
  readonly chain: string;
  readonly to: string;
  readonly token: string;
  readonly tokenId: bigint | null;
  readonly tx: string;
  readonly ordinal: number;
  readonly position: number;
  readonly amount: bigint;
}): string {
  const { chain, to, token, tokenId, tx, ordinal, position, amount } = transfer;
  const bits = amount.toString(2).length;
  const size = (64 - Math.min(bits, 64)).toString(16).padStart(2, "0");
  return hash8(`${chain} ${to} ${token} ${tokenId}`) + size + hash8(`${tx} ${ordinal} ${position}`);
}

function hash8(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, PAIR_DIGITS);
}
