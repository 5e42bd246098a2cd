/** One outcome of a market: its price, what one holds of it, and the ticket to trade it. */
import type { MarketAsset } from "@rfq-custody/client";
import { useConfig, useMarket, useTickers } from "../markets.ts";
import { assetKey } from "../markets/market-cards.ts";
import { marketHref } from "../router.ts";
import { useList, useRead } from "../session/use-service.ts";
import { Facts } from "../ui/facts.tsx";
import { Chance, Change, resultOf } from "../ui/price.tsx";
import { Table } from "../ui/table.tsx";
import { until, When } from "../ui/when.tsx";
import { compactUnits, formatPrice, formatTokens, formatUnits, shortId } from "../units.ts";
import { PriceChart } from "./price-chart.tsx";
import { Ticket } from "./ticket.tsx";

const TRADES = 15;
const REFRESH_MS = 5_000;

export function MarketPage({ venue_id, asset_id }: { venue_id: string; asset_id: string }) {
  const { data: config } = useConfig();
  const venue = config?.venues.find((known) => known.venue_id === venue_id);
  if (config === undefined) return <p role="status">Loading the market…</p>;
  if (venue === undefined || !/^0x[0-9a-f]{1,64}$/i.test(asset_id))
    return (
      <p className="empty" role="status">
        There is no such market. <a href="#markets">All markets</a>
      </p>
    );
  const fee = `${formatTokens(BigInt(venue.taker_fee_bps) * 10_000n)} %`;
  return <Outcome asset={{ venue_id: venue.venue_id, asset_id }} fee={fee} />;
}

function Outcome({ asset, fee }: { asset: MarketAsset; fee: string }) {
  const { data: markets } = useMarket(asset);
  const tickers = useTickers();
  const ticker = tickers.get(assetKey(asset));
  const [market] = markets ?? [];
  const title = market?.title ?? `${asset.venue_id} ${shortId(asset.asset_id)}`;
  const outcome = market?.outcome ?? "tokens";
  return (
    <div className="split">
      <div>
        <nav className="crumb" aria-label="Where you are">
          <a href="#markets">Markets</a> / <span>{asset.venue_id}</span>
        </nav>
        <h1>{title}</h1>
        <Siblings asset={asset} markets={markets ?? []} />
        <p className="big-price">
          {ticker === undefined ? (
            <span className="muted">No trade in the last day</span>
          ) : (
            <>
              <b>
                <Chance price={ticker.last_price} />
              </b>{" "}
              <Change change={ticker.change} /> <span className="muted">in a day</span>
            </>
          )}
        </p>
        <PriceChart asset={asset} />
        <Facts
          inline
          facts={{
            "Last trade": ticker && (
              <>
                {formatPrice(ticker.last_price)}, <When at={ticker.last_price_at} />
              </>
            ),
            "Volume, 24 h": ticker && `${compactUnits(ticker.usdc_amount)} USDC`,
            Fee: fee,
            Closes: market?.closes_at && until(market.closes_at),
          }}
        />
        <div className="columns">
          <Position asset={asset} outcome={outcome} />
          <RecentTrades asset={asset} />
        </div>
        {typeof market?.url !== "string" ? null : (
          <p>
            <a href={market.url} rel="noreferrer" target="_blank">
              What decides it, at the venue
            </a>
          </p>
        )}
      </div>
      <aside>
        {market?.status === "closed" ? (
          <Ended result={market.result} outcome={outcome} />
        ) : (
          <Ticket asset={asset} outcome={outcome} lastPrice={ticker?.last_price ?? null} />
        )}
      </aside>
    </div>
  );
}

function Ended({ result, outcome }: { result: number | null; outcome: string }) {
  return (
    <section className="card ticket" aria-label="Result">
      <h2>Trading has ended</h2>
      {result === null ? (
        <p>The result is not known yet.</p>
      ) : (
        <p>
          One {outcome} pays <b>{formatPrice(result)}</b>. Withdraw your tokens from the{" "}
          <a href="#wallet">wallet</a> and redeem them at the venue.
        </p>
      )}
    </section>
  );
}

/** The other outcomes of the same title. */
function Siblings({
  asset,
  markets,
}: {
  asset: MarketAsset;
  markets: readonly (MarketAsset & { outcome: string })[];
}) {
  if (markets.length < 2) return null;
  return (
    <nav className="seg" aria-label="Outcomes">
      {markets
        .toSorted((one, other) => (one.outcome < other.outcome ? -1 : 1))
        .map((market) => (
          <a
            key={market.asset_id}
            href={marketHref(market)}
            aria-current={market.asset_id === asset.asset_id ? "page" : undefined}
          >
            {market.outcome}
          </a>
        ))}
    </nav>
  );
}

function Position({ asset, outcome }: { asset: MarketAsset; outcome: string }) {
  const position = useRead(
    ["balances", "position", asset.venue_id, asset.asset_id],
    async (client) => (await client.rfq.positions(asset).page()).items[0] ?? null,
  );
  return (
    <section className="card" aria-label="Your position">
      <h2>Your position</h2>
      {position === undefined ? <p role="status">Loading…</p> : null}
      {position === null ? <p className="muted">You hold none.</p> : null}
      {position === undefined || position === null ? null : (
        <Facts
          facts={{
            "You hold": `${formatTokens(position.amount)} ${outcome}`,
            "You paid, on average": position.average_price && formatPrice(position.average_price),
            "Worth at the last price, USDC": position.value && formatUnits(position.value),
            "Result of what you sold, USDC": resultOf(position),
            "If it happens, it pays": `${formatUnits(position.amount)} USDC`,
          }}
        />
      )}
    </section>
  );
}

function RecentTrades({ asset }: { asset: MarketAsset }) {
  const trades = useList(
    ["trades", asset.venue_id, asset.asset_id],
    (client) => client.rfq.trades({ ...asset, limit: TRADES }),
    { refetchEvery: () => REFRESH_MS },
  );
  return (
    <section className="card" aria-label="Recent trades">
      <h2>Recent trades</h2>
      <Table
        caption="Everyone's trades of the last day"
        rows={trades}
        rowKey={({ match_id }) => match_id}
        empty="Nobody has traded in the last day."
        columns={[
          [
            "Requester",
            ({ side }) => (
              <span className={side === "Bid" ? "up" : "down"}>
                <span aria-hidden="true">{side === "Bid" ? "▲" : "▼"}</span>{" "}
                {side === "Bid" ? "Bought" : "Sold"}
              </span>
            ),
          ],
          ["Tokens", ({ amount }) => formatTokens(amount), "number"],
          ["Price", ({ price }) => formatPrice(price), "number"],
          ["When", ({ created_at }) => <When at={created_at} />, "number"],
        ]}
      />
    </section>
  );
}
