/**
 * Chooses the account that pays on a chain: a remote signer if configured, else a key in secrets.
 */
import { getAddress } from "viem";
import type { ChainConfig, Config } from "../platform/config.ts";
import { type OperatorAccount, operatorAccount } from "./operator-account.ts";
import { remoteAccount } from "./remote-signer.ts";

export function payerAccount(settings: Config, chain: ChainConfig): OperatorAccount {
  const signer = settings.PAYER_SIGNERS[chain.chain];
  if (signer === undefined) return operatorAccount(settings, chain);
  return remoteAccount({ url: signer.url, address: getAddress(signer.address) }, chain.chain_id);
}
