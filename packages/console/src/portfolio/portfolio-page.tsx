/** What the user holds, what it has won or lost, and what was traded. */
import type { Match, Position } from "@rfq-custody/client";
import { useMemo, useState } from "react";
import { Redeem, sellHref } from "../market/position.tsx";
import { useVenueOptions } from "../markets.ts";
import { learn, nameOf, textOf, useAssetName, useMarkets } from "../names.ts";
import { costOf, resultOf, totalResult } from "../positions.ts";
import { useWhole } from "../session/session.tsx";
import { clockNow } from "../ui/clock.ts";
import { CsvButton } from "../ui/csv-button.tsx";
import { SelectField } from "../ui/choices.tsx";
import { Loading, Place } from "../ui/place.tsx";
import { Facts, PagedTable, Part, Table } from "../ui/records.tsx";
import { AssetName, fromNow, Price, Result, tokensOf, usdcOf, When } from "../ui/values.tsx";
import { assetKey, exactUnits, formatUnits, toCent } from "../units.ts";
import { useBalance } from "../wallet/balances.ts";
import { OpenRequests } from "./open-requests.tsx";

export default function PortfolioPage() {
  return (
    <>
      <Place of="what you have">
        <Total />
      </Place>
      <Place of="your requests">
        <OpenRequests />
      </Place>
      <Place of="your positions">
        <Positions />
      </Place>
      <Place of="your trades">
        <History />
      </Place>
    </>
  );
}

const PAGE = 500;
const ROWS = 25;
const ROLES = { "": "Both", requester: "I asked", maker: "I quoted" } as const;

function usePositions() {
  return useWhole(["balances", "positions"], (client) => client.rfq.positions({ limit: PAGE }));
}

function Total() {
  const usdc = useBalance();
  const positions = usePositions();
  if (positions === undefined) return <Loading what="what you have" rows={3} />;
  const tokens = positions.items.reduce((sum, { value }) => sum + (value ?? 0n), 0n);
  const { result, paid } = totalResult(positions.items);
  const { balance: usable = 0n, pending_balance: promised = 0n } = usdc ?? {};
  return (
    <>
      <p className="big-price">
        <b>{formatUnits(toCent(usable + promised + tokens))}</b>{" "}
        <span className="muted">USDC, with tokens at their last prices</span>
      </p>
      {paid === 0n ? null : (
        <p>
          <Result result={result} paid={paid} />{" "}
          <span className="muted">
            won or lost so far, on tokens that cost {formatUnits(toCent(paid))} USDC
          </span>
        </p>
      )}
      <Facts
        inline
        facts={{
          "USDC you can use": usdcOf(usable),
          "Tokens at the last price": usdcOf(tokens),
          "Promised to quotes and withdrawals": usdcOf(promised),
        }}
      />
      {positions.isCut ? (
        <p className="warn">You hold more positions than can be shown, so this is not all.</p>
      ) : null}
    </>
  );
}

/** The most valuable first, and those that are over last. */
function byValue(one: Position, other: Position): number {
  return Number((other.value ?? 0n) - (one.value ?? 0n)) || Number(other.amount - one.amount);
}

function Positions() {
  const read = usePositions();
  const marketOf = useMarkets();
  const nameOfAsset = useAssetName();
  const rows = useMemo(() => read?.items.toSorted(byValue), [read]);
  return (
    <Part title="Positions">
      <Table
        caption="Tokens held or traded"
        rows={rows}
        isCut={read?.isCut ?? false}
        rowKey={assetKey}
        empty="You hold no tokens. Choose a market and ask for quotes."
        columns={[
          ["Market", (position) => <AssetName asset={position} />],
          ["Held", ({ amount }) => tokensOf(amount), "number"],
          ["Paid", ({ average_price: paid }) => paid && <Price price={paid} />, "number"],
          [
            "Last",
            ({ last_price, result }) =>
              result !== null ? (
                <>pays {<Price price={result} />}</>
              ) : (
                last_price && <Price price={last_price} />
              ),
            "number",
          ],
          ["Worth, USDC", ({ value }) => usdcOf(value), "number"],
          [
            "Result",
            (position) =>
              resultOf(position) === null ? (
                ""
              ) : (
                <Result result={resultOf(position)} paid={costOf(position)} />
              ),
            "number",
          ],
          [
            "If it wins, USDC",
            ({ amount, result }) => (result === null ? usdcOf(amount) : ""),
            "number",
          ],
          [
            "Closes",
            (position) => {
              const closes = marketOf(position)?.closes_at ?? null;
              return closes === null || position.result !== null ? "" : fromNow(closes);
            },
            "number",
          ],
          [
            "What to do",
            (position) => {
              const market = marketOf(position);
              if (position.amount === 0n) return "";
              if (market?.status === "closed")
                return (
                  <Redeem
                    market={market}
                    isPaid={
                      market.settles_at !== null && Date.parse(market.settles_at) <= clockNow()
                    }
                  />
                );
              return (
                <a className="button plain" href={sellHref(position)}>
                  Sell<span className="sr"> {nameOfAsset(position)}</span>
                </a>
              );
            },
            "actions",
          ],
        ]}
      />
    </Part>
  );
}

function History() {
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
          before={learn}
          read={(client, page, options) => client.rfq.matches({ ...filter, ...page }, options)}
          columns={{
            time: ({ created_at }) => created_at,
            market: (match) => textOf(nameOf(match)),
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
          ["Price", ({ price }) => <Price price={price} />, "number"],
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
