/** Reads what addresses hold of a token after one block, for the reconciliation. */
import { type Address, erc1155Abi, erc20Abi, type Hex } from "viem";
import type { ChainConfig } from "../platform/config.ts";
import { type Endpoint, InconsistentNode, readHeader } from "./rpc.ts";
import { ERC20, type Token } from "./token.ts";
import { askAgreed } from "./witnesses.ts";

/** Balances per eth_call. This stays far below the gas that nodes allow for a call. */
const PER_CALL = 200;

export type Holders = { readonly token: Token; readonly holders: readonly Address[] };

/** Returns the sum for each entry, in order. Throws if no endpoint has the block with this hash. */
export function sumHoldings(
  chain: ChainConfig,
  block: { readonly number: number; readonly hash: Hex },
  wanted: readonly Holders[],
): Promise<bigint[]> {
  const sumAt = async (endpoint: Endpoint) => {
    const check = async () => {
      if ((await readHeader(endpoint, block.number)).hash !== block.hash)
        throw new InconsistentNode(`block ${block.number} is not ${block.hash}`);
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
    // The balances were requested by block number, so the block must still have the same hash.
    await check();
    return sums;
  };
  return askAgreed(chain, sumAt, (sums) => sums.join()).then(({ value }) => value);
}
