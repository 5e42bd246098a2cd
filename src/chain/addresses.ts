/**
 * Computes deposit addresses without asking the chain: CREATE2 clones of the factory's forwarder.
 * The salt is an HMAC, so a user id does not reveal addresses. A sweep needs it, so D1 stores it.
 */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { type Address, concatHex, getAddress, getContractAddress, type Hex, keccak256 } from "viem";
import type { ChainConfig, Config } from "../platform/config.ts";

export type DerivedAddress = { readonly address: Address; readonly salt: Hex };

/** What an address derives from. */
type AddressName = {
  readonly chain: string;
  readonly userId: string;
  readonly nonce: number;
};

/** The user's address number `nonce` on a chain. `verifyFactory` must have checked the factory. */
export function depositAddressFor(
  { ADDRESS_KEY }: Pick<Config, "ADDRESS_KEY">,
  { chain, factory }: ChainConfig,
  userId: string,
  nonce: number,
): DerivedAddress {
  const salt = saltOf(ADDRESS_KEY, { userId, chain, nonce });
  return { salt, address: cloneAddress(getAddress(factory), salt) };
}

/** Derives the addresses of all chains. Undefined: the settings do not contain the chain. */
export function addressOf(
  settings: Pick<Config, "ADDRESS_KEY" | "CHAINS">,
): (name: AddressName) => DerivedAddress | undefined {
  const chains = new Map(settings.CHAINS.map((chain) => [chain.chain, chain]));
  return ({ chain: name, userId, nonce }) => {
    const chain = chains.get(name);
    return chain && depositAddressFor(settings, chain, userId, nonce);
  };
}

export function saltOf(addressKey: string, of: AddressName): Hex {
  const message = `${of.userId.toLowerCase()}|${of.chain}|${of.nonce}`;
  return `0x${bytesToHex(hmac(sha256, utf8ToBytes(addressKey), utf8ToBytes(message)))}`;
}

/** By factory, hashed once, because the reconciliation derives many addresses. */
const codeHashes = new Map<Address, Hex>();

/** Same result as OpenZeppelin's Clones.predictDeterministicAddress (EIP-1167). */
export function cloneAddress(factory: Address, salt: Hex): Address {
  const bytecodeHash = codeHashes.get(factory) ?? keccak256(cloneCode(factory));
  codeHashes.set(factory, bytecodeHash);
  return getContractAddress({ opcode: "CREATE2", from: factory, salt, bytecodeHash });
}

function cloneCode(factory: Address): Hex {
  return concatHex([
    "0x3d602d80600a3d3981f3363d3d373d3d3d363d73",
    forwarderAddress(factory),
    "0x5af43d82803e903d91602b57fd5bf3",
  ]);
}

/** The code behind all deposit addresses. The factory deploys it as its first contract. */
export function forwarderAddress(factory: Address): Address {
  return getContractAddress({ from: factory, nonce: 1n });
}
