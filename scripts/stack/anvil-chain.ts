import { defineChain } from "viem";

/** That of viem/chains would bring 700 others. */
export const ANVIL_CHAIN = defineChain({
  id: 31_337,
  name: "anvil",
  nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
  rpcUrls: { default: { http: [] } },
});
