/** Local chains, as viem reads and signs for them. */
import { createPublicClient, createWalletClient, defineChain, http } from "viem";
import type { PrivateKeyAccount } from "viem/accounts";

/** That of viem/chains would bring 700 others. */
export const ANVIL_CHAIN = defineChain({
  id: 31_337,
  name: "anvil",
  nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
  rpcUrls: { default: { http: [] } },
});

/** Clients of the chain at this address, of which `wallet` signs with the account. */
export async function openLocalChain(
  rpcUrl: string,
  account: PrivateKeyAccount,
  pollingInterval: number,
) {
  const transport = http(rpcUrl);
  const chain = defineChain({
    ...ANVIL_CHAIN,
    id: await createPublicClient({ transport }).getChainId(),
    name: "local",
    rpcUrls: { default: { http: [rpcUrl] } },
  });
  const client = createPublicClient({ chain, transport, pollingInterval });
  return {
    client,
    wallet: createWalletClient({ account, chain, transport }),
    /** Counts those that wait to be mined, too. */
    nextNonce: () => client.getTransactionCount({ address: account.address, blockTag: "pending" }),
  };
}
