/** Mints local tokens, which anyone may do. */
import type { Address, Hex, PublicClient } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import type { MarketAsset } from "../../packages/client/src/index.ts";
import { openLocalChain } from "./anvil-chain.ts";
import type { Deployment } from "./deploy-contracts.ts";
import { mintCall, tokenOf } from "./tokens.ts";

/**
 * Published development accounts of anvil ("test test … junk"). They have ether on local chains
 * only.
 */
export const ANVIL_ACCOUNT_KEYS = {
  deployer: "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
  faucet: "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
} as const satisfies Record<string, Hex>;

/** More than a mint needs. An estimate would cost a round trip. */
const GAS = 200_000n;

export type Faucet = {
  client: PublicClient;
  /** Resolves with the hash when the transaction is sent, before it is mined. Null: USDC. */
  mint(asset: MarketAsset | null, to: Address, amount: bigint): Promise<Hex>;
};

export async function openFaucet(stack: {
  rpcUrl: string;
  deployment: Pick<Deployment, "usdc" | "outcomeTokens">;
}): Promise<Faucet> {
  const account = privateKeyToAccount(ANVIL_ACCOUNT_KEYS.faucet);
  const { client, wallet, nextNonce } = await openLocalChain(stack.rpcUrl, account, 100);
  // Nonces are counted here, so that several mints fit into one block. Transactions are sent one by
  // one, because a nonce that was never sent would block all later ones.
  let nonce = await nextNonce();
  let last: Promise<unknown> = Promise.resolve();
  const send = (call: { to: Address; data: Hex }): Promise<Hex> => {
    const sent = last.then(async () => {
      try {
        const hash = await wallet.sendTransaction({ ...call, nonce, gas: GAS });
        nonce += 1;
        return hash;
      } catch (error) {
        // The transaction may have arrived despite the error, so ask the node.
        nonce = await nextNonce().catch(() => nonce);
        throw error;
      }
    });
    last = sent.catch(() => {});
    return sent;
  };
  return {
    client,
    mint: async (asset, to, amount) => send(mintCall(tokenOf(stack.deployment, asset), to, amount)),
  };
}
