/** Mints local tokens, which anyone may do. */
import {
  type Address,
  type Hex,
  type PublicClient,
  createPublicClient,
  createWalletClient,
  defineChain,
  encodeFunctionData,
  http,
} from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { localOutcomeTokensAbi } from "./abi/local-outcome-tokens.ts";
import { localUsdcAbi } from "./abi/local-usdc.ts";

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
  /** Resolves with the hash when the transaction is sent, before it is mined. */
  usdc(to: Address, amount: bigint): Promise<Hex>;
  outcomeTokens(token: Address, mint: { to: Address; id: bigint; amount: bigint }): Promise<Hex>;
};

export async function openFaucet(stack: { rpcUrl: string; usdc: Address }): Promise<Faucet> {
  const transport = http(stack.rpcUrl);
  const chain = defineChain({
    id: await createPublicClient({ transport }).getChainId(),
    name: "local",
    nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
    rpcUrls: { default: { http: [stack.rpcUrl] } },
  });
  const client = createPublicClient({ chain, transport, pollingInterval: 100 });
  const account = privateKeyToAccount(ANVIL_ACCOUNT_KEYS.faucet);
  const wallet = createWalletClient({ account, chain, transport });
  // Nonces are counted here, so that several mints fit into one block. Transactions are sent one by
  // one, because a nonce that was never sent would block all later ones.
  const count = () => client.getTransactionCount({ address: account.address, blockTag: "pending" });
  let nonce = await count();
  let last: Promise<unknown> = Promise.resolve();
  const send = (to: Address, data: Hex): Promise<Hex> => {
    const sent = last.then(async () => {
      try {
        const hash = await wallet.sendTransaction({ to, data, nonce, gas: GAS });
        nonce += 1;
        return hash;
      } catch (error) {
        // The transaction may have arrived despite the error, so ask the node.
        nonce = await count().catch(() => nonce);
        throw error;
      }
    });
    last = sent.catch(() => {});
    return sent;
  };
  return {
    client,
    usdc: async (to, amount) =>
      send(
        stack.usdc,
        encodeFunctionData({ abi: localUsdcAbi, functionName: "mint", args: [to, amount] }),
      ),
    outcomeTokens: async (token, { to, id, amount }) =>
      send(
        token,
        encodeFunctionData({
          abi: localOutcomeTokensAbi,
          functionName: "mint",
          args: [to, id, amount],
        }),
      ),
  };
}
