/** Reads what addresses hold of tokens: many in one call, at the head or after one block. */
import { type Address, erc1155Abi, erc20Abi, type Hex } from "viem";
import { inChunks } from "../platform/chunks.ts";
import type { Endpoint } from "./rpc.ts";
import { ERC20, type Token } from "./token.ts";

/**
 * Balances per eth_call. The call is a contract creation, whose code EIP-3860 limits to 49,152
 * bytes. A balance takes up to 256 bytes of it and viem's multicall code takes about 4,000.
 */
const PER_CALL = 150;

const BALANCE = { functionName: "balanceOf" } as const;

/** Returns the balances in order, at the head or after the block with this hash (EIP-1898). */
export async function readHoldings(
  { client }: Endpoint,
  wanted: readonly { readonly token: Token; readonly holder: Address }[],
  blockHash?: Hex,
): Promise<bigint[]> {
  const balances: bigint[] = [];
  for (const chunk of inChunks(wanted, PER_CALL)) {
    balances.push(
      ...(await client.multicall({
        contracts: chunk.map(({ token: { kind, token: address, tokenId }, holder }) =>
          kind === ERC20
            ? ({ ...BALANCE, abi: erc20Abi, address, args: [holder] } as const)
            : ({ ...BALANCE, abi: erc1155Abi, address, args: [holder, tokenId] } as const),
        ),
        allowFailure: false,
        deployless: true,
        // No limit in bytes, because PER_CALL is the limit. viem would make a call of each 1,024.
        batchSize: 0,
        ...(blockHash === undefined ? {} : { blockHash, requireCanonical: true }),
      })),
    );
  }
  return balances;
}
