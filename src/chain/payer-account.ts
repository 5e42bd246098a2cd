/**
 * Chooses the account that pays on a chain: a remote signer if configured, else a key in secrets.
 */
import { type Address, getAddress } from "viem";
import type { ChainConfig, Config } from "../platform/config.ts";
import { type OperatorAccount, operatorAccount } from "./operator-account.ts";
import { remoteAccount } from "./remote-signer.ts";

export function payerAccount(settings: Config, chain: ChainConfig): OperatorAccount {
  const signer = settings.PAYER_SIGNERS[chain.chain];
  if (signer === undefined) return operatorAccount(settings, chain);
  const values = settings.PAYER_SIGNER_HEADERS[chain.chain] ?? {};
  const headers = Object.fromEntries(signer.headers.map((name) => [name, values[name] ?? ""]));
  const remote = { url: signer.url, address: getAddress(signer.address), headers };
  return remoteAccount(remote, chain.chain_id);
}

const addresses = new WeakMap<Config, readonly Address[]>();

/** Addresses of the accounts that pay, of all chains that have one. */
export function payerAddresses(settings: Config): readonly Address[] {
  let known = addresses.get(settings);
  if (known === undefined) {
    known = settings.CHAINS.filter(
      ({ chain }) => chain in settings.PAYER_SIGNERS || chain in settings.PAYER_KEYS,
    ).map((chain) => payerAccount(settings, chain).address);
    addresses.set(settings, known);
  }
  return known;
}
