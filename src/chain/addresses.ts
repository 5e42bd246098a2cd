/**
 * Computes deposit addresses without asking the chain. Each is a CREATE2 clone of the factory's
 * forwarder. The salt is an HMAC, so a user id does not reveal the user's addresses. D1 stores the
 * salt as well, because a sweep needs it.
 */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { type Address, concatHex, getAddress, getContractAddress, type Hex, keccak256 } from "viem";
import type { ChainConfig, Config } from "../platform/config.ts";

export type DerivedAddress = { readonly address: Address; readonly salt: Hex };

/** The user's address number `nonce` on a chain. `verifyFactory` must have checked the factory. */
export function depositAddressFor(
  settings: Pick<Config, "ADDRESS_KEY">,
  chain: ChainConfig,
  userId: string,
  nonce: number,
): DerivedAddress {
  return addressesOf(settings, chain)(userId, nonce);
}

/** What an address derives from. */
type AddressName = {
  readonly chain: string;
  readonly userId: string;
  readonly nonce: number;
};

/** Derives the addresses of all chains. Undefined: the settings do not contain the chain. */
export function addressOf(
  settings: Pick<Config, "ADDRESS_KEY" | "CHAINS">,
): (name: AddressName) => DerivedAddress | undefined {
  const chains = new Map(
    settings.CHAINS.map((chain) => [chain.chain, addressesOf(settings, chain)]),
  );
  return ({ chain, userId, nonce }) => chains.get(chain)?.(userId, nonce);
}

/** The code of the clones is hashed once, because the reconciliation derives many addresses. */
function addressesOf(
  { ADDRESS_KEY }: Pick<Config, "ADDRESS_KEY">,
  { chain, factory }: ChainConfig,
): (userId: string, nonce: number) => DerivedAddress {
  const from = getAddress(factory);
  const bytecodeHash = keccak256(cloneCode(from));
  return (userId, nonce) => {
    const salt = saltOf(ADDRESS_KEY, { userId, chain, nonce });
    return { salt, address: getContractAddress({ opcode: "CREATE2", from, salt, bytecodeHash }) };
  };
}

export function saltOf(addressKey: string, of: AddressName): Hex {
  const message = `${of.userId.toLowerCase()}|${of.chain}|${of.nonce}`;
  return `0x${bytesToHex(hmac(sha256, utf8ToBytes(addressKey), utf8ToBytes(message)))}`;
}

/**
 * Same result as OpenZeppelin's Clones.predictDeterministicAddress (EIP-1167).
 */
export function cloneAddress(factory: Address, salt: Hex): Address {
  const bytecode = cloneCode(factory);
  return getContractAddress({ opcode: "CREATE2", from: factory, salt, bytecode });
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
