/**
 * Deposit addresses, computed at the edge: CREATE2 clones of the factory's forwarder. The salt is an HMAC, so that a
 * disclosed user id reveals nobody's addresses; it is kept in D1 too, where the sweeps find it.
 */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { type Address, concatHex, getAddress, getContractAddress, type Hex } from "viem";
import type { ChainConfig, Config } from "../platform/config.ts";

export type DerivedAddress = { readonly address: Address; readonly salt: Hex };

/** The user's address number `nonce` on a chain. Pure: whether the factory is the right one is for `verifyFactory`. */
export function depositAddressFor(
  settings: Pick<Config, "ADDRESS_KEY">,
  chain: ChainConfig,
  userId: string,
  nonce: number,
): DerivedAddress {
  const salt = saltOf(settings.ADDRESS_KEY, { userId, chain: chain.chain, nonce });
  return { salt, address: cloneAddress(getAddress(chain.factory), salt) };
}

export function saltOf(
  addressKey: string,
  of: { readonly userId: string; readonly chain: string; readonly nonce: number },
): Hex {
  const message = `${of.userId.toLowerCase()}|${of.chain}|${of.nonce}`;
  return `0x${bytesToHex(hmac(sha256, utf8ToBytes(addressKey), utf8ToBytes(message)))}`;
}

/** As OpenZeppelin's Clones.predictDeterministicAddress (EIP-1167); the implementation is the factory's first CREATE. */
export function cloneAddress(factory: Address, salt: Hex): Address {
  const implementation = getContractAddress({ from: factory, nonce: 1n });
  const bytecode = concatHex([
    "0x3d602d80600a3d3981f3363d3d373d3d3d363d73",
    implementation,
    "0x5af43d82803e903d91602b57fd5bf3",
  ]);
  return getContractAddress({ opcode: "CREATE2", from: factory, salt, bytecode });
}
