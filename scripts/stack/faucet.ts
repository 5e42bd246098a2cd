/** Money on the local chain: its tokens can be minted by anyone. */
import { type Address, type Hex, type PublicClient, createPublicClient, createWalletClient, defineChain, http } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { localOutcomeTokensAbi } from "../../src/chain/abi/local-outcome-tokens.ts";
import { localUsdcAbi } from "../../src/chain/abi/local-usdc.ts";

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
  // Counted here, so that several mints go into one block.
  let nonce = await client.getTransactionCount({ address: account.address, blockTag: "pending" });
  return {
    client,
    usdc: (to, amount) =>
      wallet.writeContract({ address: stack.usdc, abi: localUsdcAbi, functionName: "mint", args: [to, amount], nonce: nonce++, gas: GAS }),
    outcomeTokens: (token, { to, id, amount }) =>
      wallet.writeContract({
        address: token,
        abi: localOutcomeTokensAbi,
        functionName: "mint",
        args: [to, id, amount],
        nonce: nonce++,
        gas: GAS,
      }),
  };
}
