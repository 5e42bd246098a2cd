/** One outcome of a market: its price, what one holds of it, and the ticket to trade it. */
import type { MarketAsset } from "@rfq-custody/client";
import { useConfig, useMarket, useTickers } from "../markets.ts";
import { assetKey } from "../markets/market-cards.ts";
import { marketHref } from "../router.ts";
import { useList, useRead } from "../session/use-service.ts";
import { Facts, Part } from "../ui/facts.tsx";
import { Change, resultOf, tokensOf, usdcOf } from "../ui/price.tsx";
import { Table } from "../ui/table.tsx";
import { fromNow, When } from "../ui/times.tsx";
import {
  compactUnits,
  formatChance,
  formatPrice,
  formatTokens,
  roundPrice,
  shortId,
} from "../units.ts";
import { PriceChart } from "./price-chart.tsx";
import { Ticket } from "./ticket.tsx";

const TRADES = 15;
const REFRESH_MS = 5_000;

export function MarketPage({ venue_id, asset_id }: { venue_id: string; asset_id: string }) {
  const config = useConfig();
  const venue = config?.venues.find((known) => known.venue_id === venue_id);
  if (config === undefined) return <p role="status">Loading the market…</p>;
  if (venue === undefined || !/^0x[0-9a-f]{1,64}$/i.test(asset_id))
    return (
      <p className="empty" role="status">
        There is no such market. <a href="#markets">All markets</a>
      </p>
    );
  const feeBps = BigInt(venue.taker_fee_bps);
  return <Outcome asset={{ venue_id: venue.venue_id, asset_id }} feeBps={feeBps} />;
}

function Outcome({ asset, feeBps }: { asset: MarketAsset; feeBps: bigint }) {
  const markets = useMarket(asset);
  const tickers = useTickers();
  const ticker = tickers.get(assetKey(asset));
  const [market] = markets;
  const title = market?.title ?? `${asset.venue_id} ${shortId(asset.asset_id)}`;
  const outcome = market?.outcome ?? "tokens";
  return (
    <div className="split market">
      <div>
        <nav className="crumb" aria-label="Where you are">
          <a href="#markets">Markets</a> / <span>{asset.venue_id}</span>
        </nav>
        <div className="between">
          <h1>{title}</h1>
          <Siblings asset={asset} markets={markets} tickers={tickers} />
        </div>
        <PriceChart asset={asset}>
          <p className="big-price">
            {ticker === undefined ? (
              <span className="muted">No trade in the last day</span>
            ) : (
              <>
                <b>{formatChance(ticker.last_price)}</b> <Change change={ticker.change} />{" "}
                <span className="muted">in a day</span>
              </>
            )}
          </p>
        </PriceChart>
        <Facts
          inline
          facts={{
            "Last trade": ticker && (
              <>
                {formatPrice(roundPrice(ticker.last_price))}, <When at={ticker.last_price_at} />
              </>
            ),
            "Volume, 24 h": ticker && `${compactUnits(ticker.usdc_amount)} USDC`,
            Fee: feeBps === 0n ? "" : `${formatTokens(feeBps * 10_000n)} %`,
            Closes: market?.closes_at && fromNow(market.closes_at),
          }}
        />
        <div className="columns after">
          <Position asset={asset} outcome={outcome} />
          <RecentTrades asset={asset} />
        </div>
        {typeof market?.url !== "string" ? null : (
          <p className="after">
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
          <Ticket {...{ asset, outcome, feeBps }} lastPrice={ticker?.last_price ?? null} />
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

type SiblingsProps = {
  asset: MarketAsset;
  markets: readonly (MarketAsset & { outcome: string })[];
  tickers: ReturnType<typeof useTickers>;
};

/** The other outcomes of the same title. */
function Siblings({ asset, markets, tickers }: SiblingsProps) {
  if (markets.length < 2) return null;
  return (
    <nav className="seg" aria-label="Outcomes">
      {markets
        .map((market) => ({ ...market, last: tickers.get(assetKey(market))?.last_price ?? 0 }))
        .toSorted((one, other) => other.last - one.last || (one.outcome < other.outcome ? -1 : 1))
        .map(({ last, outcome, ...market }) => (
          <a
            key={market.asset_id}
            href={marketHref(market)}
            aria-current={market.asset_id === asset.asset_id ? "page" : undefined}
          >
            {outcome} {last === 0 ? "" : formatChance(last)}
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
    <Part title="Your position">
      {position === undefined ? <p role="status">Loading…</p> : null}
      {position === null ? <p className="muted">You hold none.</p> : null}
      {position === undefined || position === null ? null : (
        <Facts
          facts={{
            "You hold": (
              <>
                {tokensOf(position.amount) || "0"} {outcome}
              </>
            ),
            "You paid, on average":
              position.average_price && formatPrice(roundPrice(position.average_price)),
            "Worth at the last price, USDC": usdcOf(position.value),
            "Result of what you sold, USDC": resultOf(position),
            "If it happens, it pays, USDC": usdcOf(position.amount),
          }}
        />
      )}
    </Part>
  );
}

function RecentTrades({ asset }: { asset: MarketAsset }) {
  const trades = useList(
    ["trades", asset.venue_id, asset.asset_id],
    (client) => client.rfq.trades({ ...asset, limit: TRADES }),
    { refetchEvery: () => REFRESH_MS },
  );
  return (
    <Part title="Recent trades">
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
          ["Tokens", ({ amount }) => tokensOf(amount), "number"],
          ["Price", ({ price }) => <b>{formatPrice(roundPrice(price))}</b>, "number"],
          ["USDC", ({ usdc_amount }) => usdcOf(usdc_amount), "number"],
          ["When", ({ created_at }) => <When at={created_at} />, "number"],
        ]}
      />
    </Part>
  );
}
