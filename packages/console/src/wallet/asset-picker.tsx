/** Chooses an outcome token: a listed market by name, or any asset by its ids. */
import type { MarketAsset } from "@rfq-custody/client";
import { useDeferredValue, useId, useState } from "react";
import { useAssetName, useConfig, useMarketList } from "../markets.ts";
import { SelectField, TextField } from "../ui/form.tsx";

const SHOWN = 8;

export function AssetPicker({
  asset,
  choose,
}: {
  asset: MarketAsset | null;
  choose: (asset: MarketAsset | null) => void;
}) {
  const nameOf = useAssetName();
  if (asset !== null)
    return (
      <p className="field">
        Market: <strong>{nameOf(asset)}</strong>{" "}
        <button type="button" className="link" onClick={() => choose(null)}>
          Change
        </button>
      </p>
    );
  return (
    <>
      <MarketSearch choose={choose} />
      <UnlistedAsset choose={choose} />
    </>
  );
}

function MarketSearch({ choose }: { choose: (asset: MarketAsset) => void }) {
  const id = useId();
  const [text, setText] = useState("");
  const { data: found } = useMarketList(useDeferredValue(text));
  const markets = found?.slice(0, SHOWN);
  return (
    <div className="field">
      <label htmlFor={id}>Find a market</label>
      <input
        id={id}
        type="search"
        value={text}
        placeholder="Words of its title or outcome"
        onChange={(event) => setText(event.target.value)}
      />
      <ul className="results" aria-label="Markets found">
        {markets?.map((market) => (
          <li key={`${market.venue_id} ${market.asset_id}`}>
            <button
              type="button"
              onClick={() => choose({ venue_id: market.venue_id, asset_id: market.asset_id })}
            >
              <span>{market.title}</span> <strong>{market.outcome}</strong>
            </button>
          </li>
        ))}
      </ul>
      {markets?.length === 0 ? <p role="status">No open market has these words.</p> : null}
    </div>
  );
}

function UnlistedAsset({ choose }: { choose: (asset: MarketAsset) => void }) {
  const { data: config } = useConfig();
  const venues = config?.venues ?? [];
  const [venue, setVenue] = useState("");
  const [assetId, setAssetId] = useState("");
  const chosen = venues.find(({ venue_id }) => venue_id === venue) ?? venues[0];
  return (
    <details>
      <summary>Or enter the ids of an asset</summary>
      <SelectField
        label="Venue"
        name="venue"
        options={venues.map(({ venue_id }) => ({ value: venue_id, text: venue_id }))}
        onChange={setVenue}
      />
      <TextField
        label="Asset id"
        value={assetId}
        placeholder="0x…"
        onChange={(event) => setAssetId(event.target.value)}
      />
      <button
        type="button"
        disabled={chosen === undefined || !/^0x[0-9a-f]{1,64}$/i.test(assetId)}
        onClick={() => {
          if (chosen !== undefined) choose({ venue_id: chosen.venue_id, asset_id: assetId });
        }}
      >
        Choose this asset
      </button>
    </details>
  );
}
