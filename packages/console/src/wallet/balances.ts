/** What the user has. */
import type { Balance } from "@rfq-custody/client";
import type { Asset } from "../names.ts";
import { useWhole } from "../session/session.tsx";
import { assetKey } from "../units.ts";

const PAGE = 500;
const USDC: Asset = { venue_id: null, asset_id: null };

/** `optional`: a header shows nothing if they cannot be read. */
export function useBalances({ optional = false } = {}): readonly Balance[] | undefined {
  return useAllBalances(optional)?.items;
}

function useAllBalances(optional: boolean) {
  return useWhole(["balances"], (client) => client.custody.balances({ limit: PAGE }), { optional });
}

/** Undefined: none, or not read yet. */
export function useBalance(asset = USDC): Balance | undefined {
  return useBalances({ optional: true })?.find((one) => assetKey(one) === assetKey(asset));
}

/** What can be used of each asset. Null: unknown. */
export function useFunds(): (asset?: Asset) => bigint | null {
  const read = useAllBalances(true);
  const funds = new Map(read?.items.map((one) => [assetKey(one), one.balance]));
  // Of what is beyond the last page nothing is known.
  const missing = read === undefined || read.isCut ? null : 0n;
  return (asset = USDC) => funds.get(assetKey(asset)) ?? missing;
}
