import { keccak_256 } from "@noble/hashes/sha3.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";

/** The EIP-55 form of an address. The prefix `0x` is optional. */
export function checksumAddress(hex: string): `0x${string}` {
  const lower = hex.toLowerCase().replace(/^0x/, "");
  const hash = bytesToHex(keccak_256(utf8ToBytes(lower)));
  const mixed = Array.from(lower, (digit, index) =>
    Number.parseInt(hash[index] ?? "0", 16) >= 8 ? digit.toUpperCase() : digit,
  );
  return `0x${mixed.join("")}`;
}

/** The EIP-55 form of `text`. Undefined if it is malformed or its mixed case fails the checksum. */
export function parseAddress(text: string): `0x${string}` | undefined {
  if (!/^0x[0-9a-fA-F]{40}$/.test(text)) return undefined;
  const digits = text.slice(2);
  const checked = checksumAddress(digits);
  const oneCase = digits === digits.toLowerCase() || digits === digits.toUpperCase();
  return oneCase || checked === text ? checked : undefined;
}
