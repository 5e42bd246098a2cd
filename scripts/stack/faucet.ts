/** Money on the local chain: its tokens can be minted by anyone. */
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

/** anvil's published development accounts ("test test … junk"), rich on every local chain and worthless elsewhere. */
export const ANVIL_ACCOUNT_KEYS = {
  deployer: "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
  faucet: "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
} as const satisfies Record<string, Hex>;

/** A mint or an approval stays far below; asking the node each time would cost a round trip. */
const GAS = 200_000n;

export type Faucet = {
  client: PublicClient;
  /** Resolves with the hash when it is sent, not when it is mined. */
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
  // Counted here, so that several mints go into one block; one after the other, since a number that is taken and not sent
  // would hold up all later ones for ever.
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
        // It may have arrived all the same: the node knows.
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
