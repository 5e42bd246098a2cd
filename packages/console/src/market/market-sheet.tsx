/** A market beside the maker's grid, which goes on meanwhile. */
import type { MarketAsset } from "@rfq-custody/client";
import { useEffect, useRef } from "react";
import { useMarket } from "../markets.ts";
import { marketHref } from "../router.ts";
import { Place } from "../ui/place.tsx";
import { RecentTrades } from "./market-page.tsx";
import { PositionPart } from "./position.tsx";
import { PriceChart } from "./price-chart.tsx";

export default function MarketSheet({ asset, close }: { asset: MarketAsset; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const { venue_id, asset_id } = asset;
  const markets = useMarket({ venue_id, asset_id }) ?? [];
  const [market] = markets;
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} className="sheet" aria-label="Market" onClose={close}>
      <div className="between">
        <h2>{market === undefined ? "Market" : `${market.title}: ${market.outcome}`}</h2>
        <button type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </div>
      <Place of="the market">
        <PriceChart
          asset={{ venue_id, asset_id }}
          outcome={market?.outcome ?? ""}
          markets={markets}
        >
          <a href={marketHref(asset)}>Open its page</a>
        </PriceChart>
        <PositionPart asset={{ venue_id, asset_id }} outcome={market?.outcome ?? "tokens"} />
        <RecentTrades asset={asset} />
      </Place>
    </dialog>
  );
}
