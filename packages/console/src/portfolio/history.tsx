import type { Match } from "@rfq-custody/client";
import { useState } from "react";
import { AssetName, tokensOf, usdcOf } from "../ui/price.tsx";
import { exactUnits, formatPrice, roundPrice } from "../units.ts";
import { useAssetName, useConfig, venueOptions } from "../markets.ts";
import { CsvButton } from "../ui/csv-button.tsx";
import { SelectField } from "../ui/form.tsx";
import { PagedTable } from "../ui/pages.tsx";
import { When } from "../ui/times.tsx";
import { Part } from "../ui/facts.tsx";

const ROWS = 25;
/** The most that a page has. */
const LONGEST = 500;

/** The user's matches, with filters. */
export function History() {
  const nameOf = useAssetName();
  const config = useConfig();
  const [role, setRole] = useState("");
  const [venue, setVenue] = useState("");
  const venueId = config?.venues.find(({ venue_id }) => venue_id === venue)?.venue_id;
  const filter: Partial<Pick<Match, "role" | "venue_id">> = {
    ...(role === "requester" || role === "maker" ? { role } : {}),
    ...(venueId === undefined ? {} : { venue_id: venueId }),
  };
  return (
    <Part title="Trades">
      <div className="row">
        <SelectField
          label="Role"
          name="role"
          value={role}
          onChange={setRole}
          options={{ "": "Both", requester: "I asked", maker: "I quoted" }}
        />
        <SelectField
          label="Venue"
          name="venue"
          value={venue}
          onChange={setVenue}
          options={venueOptions(config)}
        />
        <CsvButton
          file="trades.csv"
          read={(client, options) => client.rfq.matches({ limit: LONGEST, ...filter }, options)}
          columns={{
            time: ({ created_at }) => created_at,
            market: (match) => nameOf(match),
            venue_id: ({ venue_id }) => venue_id,
            asset_id: ({ asset_id }) => asset_id,
            role: ({ role: as }) => as,
            side: (match) => (bought(match) ? "bought" : "sold"),
            tokens: ({ amount }) => exactUnits(amount),
            price_usdc: ({ price }) => exactUnits(BigInt(price)),
            usdc: ({ usdc_amount }) => exactUnits(usdc_amount),
            fee_usdc: ({ fee }) => exactUnits(fee),
            label: ({ label }) => label,
            match_id: ({ match_id }) => match_id,
          }}
        />
      </div>
      <PagedTable
        caption="Your trades, newest first"
        key={`${role} ${venue}`}
        queryKey={["matches", role, venue]}
        read={(client, position) => client.rfq.matches({ limit: ROWS, ...filter, ...position })}
        rowKey={({ match_id, role: side }) => `${match_id} ${side}`}
        empty="No trades yet."
        columns={[
          ["Market", (match) => <AssetName asset={match} />],
          ["Side", (match) => (bought(match) ? "Bought" : "Sold")],
          ["Tokens", ({ amount }) => tokensOf(amount), "number"],
          ["Price", ({ price }) => formatPrice(roundPrice(price)), "number"],
          ["USDC", ({ usdc_amount }) => usdcOf(usdc_amount), "number"],
          ["Fee", ({ fee }) => usdcOf(fee), "number"],
          ["When", ({ created_at }) => <When at={created_at} />, "number"],
        ]}
      />
    </Part>
  );
}

function bought({ side, role }: Match): boolean {
  return (side === "Bid") === (role === "requester");
}
