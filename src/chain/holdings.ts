/** What many addresses hold of a token after one certain block. */
import { type Address, erc1155Abi, erc20Abi, type Hex } from "viem";
import type { ChainConfig } from "../platform/config.ts";
import { askAny, NodeDisagrees, readHeader } from "./rpc.ts";
import { ERC20, type Token } from "./token.ts";

/** Balances read by one eth_call, far below the gas that nodes allow one. */
const PER_CALL = 200;

export type Holders = { readonly token: Token; readonly holders: readonly Address[] };

/** The sum for each entry, in order. Throws when no endpoint has the block, by number and hash. */
export function sumHoldings(
  chain: ChainConfig,
  block: { readonly number: number; readonly hash: Hex },
  wanted: readonly Holders[],
): Promise<bigint[]> {
  return askAny(chain, async (endpoint) => {
    const check = async () => {
      if ((await readHeader(endpoint, block.number)).hash !== block.hash)
        throw new NodeDisagrees(`block ${block.number} is not ${block.hash}`);
    };
    await check();
    const sums: bigint[] = [];
    for (const { token, holders } of wanted) {
      let sum = 0n;
      for (let start = 0; start < holders.length; start += PER_CALL) {
        const balances = await endpoint.client.multicall({
          contracts: holders.slice(start, start + PER_CALL).map((holder) =>
            token.kind === ERC20
              ? ({
                  address: token.token,
                  abi: erc20Abi,
                  functionName: "balanceOf",
                  args: [holder],
                } as const)
              : ({
                  address: token.token,
                  abi: erc1155Abi,
                  functionName: "balanceOf",
                  args: [holder, token.tokenId],
                } as const),
          ),
          allowFailure: false,
          deployless: true,
          blockNumber: BigInt(block.number),
        });
        sum += balances.reduce((total, balance) => total + balance, 0n);
      }
      sums.push(sum);
    }
    // Asked by number: the block must still be the same one.
    await check();
    return sums;
  });
}
