import type { MarketAsset, Position } from "@rfq-custody/client";
import type { ReactNode } from "react";
import { useNames } from "../markets.ts";
import { marketHref } from "../router.ts";
import { tenths, formatTokens, formatUnits, toCent } from "../units.ts";

type Asset = { venue_id: string | null; asset_id: string | null };

/** What an asset is called, a market's outcome beneath its title. With a link to its page. */
export function AssetName({ asset }: { asset: Asset | MarketAsset }) {
  const { title, outcome } = useNames()(asset);
  const { venue_id, asset_id } = asset;
  const name = (
    <>
      <b>{title}</b> <small className="sub">{outcome}</small>
    </>
  );
  if (venue_id === null || asset_id === null) return name;
  return (
    <a className="asset" href={marketHref({ venue_id, asset_id })}>
      {name}
    </a>
  );
}

/** An amount to the cent, with the exact one in its title. Empty for nothing. */
export function tokensOf(amount: bigint | null | undefined): ReactNode {
  return rounded(amount, formatTokens);
}

/** As `tokensOf`, with two decimals at least. */
export function usdcOf(amount: bigint | null | undefined): ReactNode {
  return rounded(amount, formatUnits);
}

function rounded(amount: bigint | null | undefined, format: (amount: bigint) => string) {
  if (amount === null || amount === undefined || amount === 0n) return "";
  return <span title={format(amount)}>{format(toCent(amount))}</span>;
}

/** A change in points with its sign, in words too. */
export function Change({ change }: { change: number }) {
  if (change === 0) return <span className="muted">unchanged</span>;
  const up = change > 0;
  return (
    <span className={up ? "up" : "down"}>
      <span aria-hidden="true">{up ? "▲" : "▼"}</span>
      <span className="sr">{up ? "up" : "down"}</span> {tenths(Math.abs(change))}
    </span>
  );
}

/** What the sales of a position have won or lost, in USDC. Empty without one. */
export function resultOf({ realized, sold }: Position): ReactNode {
  if (realized === null || sold === 0n) return "";
  return (
    <span className={realized < 0n ? "down" : "up"}>
      {realized > 0n ? "+" : ""}
      {usdcOf(realized)}
    </span>
  );
}
