/** What the user holds, what it cost and what it is worth, and what was traded. */
import type { Match } from "@rfq-custody/client";
import { useState } from "react";
import { useAssetName, useVenueOptions } from "../markets.ts";
import { useList } from "../session/session.tsx";
import { CsvButton } from "../ui/csv-button.tsx";
import { SelectField } from "../ui/form.tsx";
import { Facts, PagedTable, Part, Table } from "../ui/records.tsx";
import { AssetName, resultOf, tokensOf, usdcOf, When } from "../ui/values.tsx";
import { assetKey, exactUnits, roughPrice } from "../units.ts";
import { useBalance } from "../wallet/balances.tsx";
import { OpenRequests } from "./open-requests.tsx";

export default function PortfolioPage() {
  return (
    <>
      <Total />
      <OpenRequests />
      <Positions />
      <History />
    </>
  );
}

const SHOWN = 100;
const ROWS = 25;
const ROLES = { "": "Both", requester: "I asked", maker: "I quoted" } as const;

function usePositions() {
  return useList(["balances", "positions"], (client) => client.rfq.positions({ limit: SHOWN }));
}

function Total() {
  const usdc = useBalance();
  const positions = usePositions();
  if (positions === undefined) return null;
  const tokens = positions.reduce((sum, { value }) => sum + (value ?? 0n), 0n);
  const { balance: usable = 0n, pending_balance: promised = 0n } = usdc ?? {};
  return (
    <>
      <p className="big-price">
        <b>{usdcOf(usable + promised + tokens) || "0.00"}</b>{" "}
        <span className="muted">USDC, with tokens at their last prices</span>
      </p>
      <Facts
        inline
        facts={{
          "USDC you can use": usdcOf(usable),
          "Tokens at the last price": usdcOf(tokens),
          Promised: usdcOf(promised),
        }}
      />
    </>
  );
}

function Positions() {
  return (
    <Part title="Positions">
      <Table
        caption="Tokens held or traded"
        rows={usePositions()}
        rowKey={assetKey}
        empty="You hold no tokens. Choose a market and ask for quotes."
        columns={[
          ["Market", (position) => <AssetName asset={position} />],
          ["Held", ({ amount }) => tokensOf(amount), "number"],
          ["Paid, on average", ({ average_price: paid }) => roughPrice(paid), "number"],
          ["Last price", ({ last_price: last }) => roughPrice(last), "number"],
          ["Worth, USDC", ({ value }) => usdcOf(value), "number"],
          ["Result of sales", resultOf, "number"],
        ]}
      />
    </Part>
  );
}

function History() {
  const nameOf = useAssetName();
  const venues = useVenueOptions();
  const [role, setRole] = useState<keyof typeof ROLES>("");
  const [venue, setVenue] = useState("");
  const filter = {
    ...(role === "" ? {} : { role }),
    ...(venue === "" ? {} : { venue_id: venue }),
  };
  return (
    <Part title="Trades">
      <div className="row">
        <SelectField label="Role" value={role} onChange={setRole} options={ROLES} />
        <SelectField label="Venue" value={venue} onChange={setVenue} options={venues} />
        <CsvButton
          file="trades.csv"
          read={(client, page, options) => client.rfq.matches({ ...filter, ...page }, options)}
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
          ["Price", ({ price }) => roughPrice(price), "number"],
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
