/** Maps assets of the service to tokens of a chain and back. */
import { type Address, getAddress, isAddressEqual, zeroAddress } from "viem";
import { assetKey, readAssetKey, USDC, type AssetKey } from "../assets/asset.ts";
import { type ChainConfig, type Config, venueConfig } from "../platform/config.ts";
import { type Expr, expr, raw } from "../platform/sql.ts";
import { venueOf } from "../platform/venues.ts";

/** The values of contracts/Assets.sol. */
export const ERC20 = 0;
export const ERC1155 = 1;

export type Token = {
  readonly kind: typeof ERC20 | typeof ERC1155;
  readonly token: Address;
  readonly tokenId: bigint;
};

/** The chain's own coin, which is never credited or paid. */
export const NATIVE_COIN = { kind: 255, token: zeroAddress, tokenId: 0n } as const;

export function tokenOf(settings: Config, chain: ChainConfig, asset: AssetKey): Token {
  const outcome = readAssetKey(asset);
  if (outcome === null) return { kind: ERC20, token: getAddress(chain.usdc), tokenId: 0n };
  const { outcome_tokens: contract } = venueConfig(settings, outcome.venue);
  if (contract === undefined) throw new Error(`${outcome.venue} has no chain`);
  return {
    kind: ERC1155,
    token: getAddress(contract),
    tokenId: BigInt(outcome.assetId),
  };
}

/** The asset of a transfer that a configured contract logged. Undefined for other contracts. */
export function assetOf(
  settings: Config,
  chain: ChainConfig,
  token: Address,
  tokenId: bigint | null,
): AssetKey | undefined {
  if (tokenId === null) return isAddressEqual(token, getAddress(chain.usdc)) ? USDC : undefined;
  const venue = settings.VENUES.find(
    (candidate) =>
      candidate.chain === chain.chain &&
      candidate.outcome_tokens !== undefined &&
      isAddressEqual(getAddress(candidate.outcome_tokens), token),
  );
  return venue && assetKey({ venue: venue.venue_id, assetId: `0x${tokenId.toString(16)}` });
}

/** The asset of a vault's or factory's event, whose token id is 0 for an ERC-20. */
export function assetOfEvent(
  settings: Config,
  chain: ChainConfig,
  { token, tokenId }: Pick<Token, "token" | "tokenId">,
): AssetKey | undefined {
  return assetOf(settings, chain, token, null) ?? assetOf(settings, chain, token, tokenId);
}

/** Names the contract behind an asset: `usdc`, or the venue whose outcome tokens it holds. */
export function tokenName(asset: AssetKey): string {
  return readAssetKey(asset)?.venue ?? USDC;
}

/** The same in SQL, of a column that contains an asset. */
export function tokenNameOf(column: "w.asset" | "p.asset"): Expr {
  const asset = raw(column);
  return expr`iif(instr(${asset}, ':') = 0, ${asset}, ${venueOf(column)})`;
}

/** Subject of the alert `token_refuses`. */
export function tokenSubject(chain: string, token: string): string {
  return `${chain}:${token}`;
}
