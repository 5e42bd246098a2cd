/** The tokens of a local stack: what an asset is on its chain, and calls that mint and read it. */
import { type Address, encodeFunctionData, type Hex, type PublicClient } from "viem";
import type { MarketAsset } from "../../packages/client/src/index.ts";
import { localOutcomeTokensAbi } from "./abi/local-outcome-tokens.ts";
import { localUsdcAbi } from "./abi/local-usdc.ts";
import type { Deployment } from "./deploy-contracts.ts";
import { LOCAL_VENUES } from "./local-venues.ts";

/** An ERC-20 token, or one id of an ERC-1155 contract. */
export type Token = { readonly contract: Address; readonly id?: bigint };

/** `null` is USDC. Throws for a venue that the stack does not have, as ids are open to clients. */
export function tokenOf(
  { usdc, outcomeTokens }: Pick<Deployment, "usdc" | "outcomeTokens">,
  asset: MarketAsset | null,
): Token {
  if (asset === null) return { contract: usdc };
  const venue = LOCAL_VENUES.find((name) => name === asset.venue_id);
  if (venue === undefined) throw new Error(`no outcome tokens of the venue ${asset.venue_id}`);
  return { contract: outcomeTokens[venue], id: BigInt(asset.asset_id) };
}

/** Anyone may make it. */
export function mintCall(
  { contract, id }: Token,
  to: Address,
  amount: bigint,
): { to: Address; data: Hex } {
  const functionName = "mint";
  const data =
    id === undefined
      ? encodeFunctionData({ abi: localUsdcAbi, functionName, args: [to, amount] })
      : encodeFunctionData({ abi: localOutcomeTokensAbi, functionName, args: [to, id, amount] });
  return { to: contract, data };
}

export function heldBy(
  client: Pick<PublicClient, "readContract">,
  { contract: address, id }: Token,
  holder: Address,
): Promise<bigint> {
  const functionName = "balanceOf";
  return id === undefined
    ? client.readContract({ address, abi: localUsdcAbi, functionName, args: [holder] })
    : client.readContract({
        address,
        abi: localOutcomeTokensAbi,
        functionName,
        args: [holder, id],
      });
}
