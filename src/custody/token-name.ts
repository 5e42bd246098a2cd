/** Names the contract behind an asset: `usdc`, or the venue whose outcome tokens it holds. */
import { type AssetKey, readAssetKey, USDC } from "../assets/asset.ts";
import { type Expr, expr, raw } from "../platform/sql.ts";

export function tokenName(asset: AssetKey): string {
  return readAssetKey(asset)?.venue ?? USDC;
}

/** The same in SQL, of a column that contains an asset. */
export function tokenNameOf(column: "w.asset" | "p.asset"): Expr {
  const asset = raw(column);
  return expr`iif(instr(${asset}, ':') = 0, ${asset}, substr(${asset}, 1, instr(${asset}, ':') - 1))`;
}

/** Subject of the alert `token_refuses`. */
export function tokenSubject(chain: string, token: string): string {
  return `${chain}:${token}`;
}
