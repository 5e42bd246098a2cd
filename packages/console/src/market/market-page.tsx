/** One outcome of a market: its price, what one holds of it, and the ticket to trade it. */
import type { Market, MarketAsset } from "@rfq-custody/client";
import { type ReactNode, useState } from "react";
import { type Tickers, useConfig, useMarket, useTickers } from "../markets.ts";
import { useMyRequests } from "../portfolio/my-requests.ts";
import { marketHref } from "../router.ts";
import { useDoor, useList } from "../session/session.tsx";
import { useTitle } from "../title.ts";
import { Loading, Place } from "../ui/place.tsx";
import { Facts, Part, Table } from "../ui/records.tsx";
import { Change, fromNow, Price, tokensOf, usdcOf, When } from "../ui/values.tsx";
import { assetKey, compactUnits, formatChance, roughPrice, shortId } from "../units.ts";
import { Ended, PositionPart, Redeem } from "./position.tsx";
import { PriceChart } from "./price-chart.tsx";
import { Ticket } from "./ticket.tsx";

const TRADES = 15;
const REFRESH_MS = 5_000;

type MarketPageProps = { venue_id: string; asset_id: string; sells: boolean };

export default function MarketPage({ venue_id, asset_id, sells }: MarketPageProps) {
  const config = useConfig();
  const venue = config?.venues.find((known) => known.venue_id === venue_id);
  const isId = /^0x[0-9a-f]{1,64}$/i.test(asset_id);
  if (config === undefined) return <Loading what="the market" rows={8} />;
  if (venue === undefined || !isId) return <Unknown />;
  const feeBps = BigInt(venue.taker_fee_bps);
  return <Outcome asset={{ venue_id, asset_id }} feeBps={feeBps} sells={sells} />;
}

function Unknown() {
  return (
    <p className="empty" role="status">
      There is no such market. <a href="#markets">All markets</a>
    </p>
  );
}

type OutcomeProps = { asset: MarketAsset; feeBps: bigint; sells: boolean };

function Outcome({ asset, feeBps, sells }: OutcomeProps) {
  const { signed } = useDoor();
  const markets = useMarket(asset);
  const tickers = useTickers();
  const ticker = tickers.get(assetKey(asset));
  const [market] = markets ?? [];
  const title = market?.title ?? `${asset.venue_id} ${shortId(asset.asset_id)}`;
  const outcome = market?.outcome ?? "tokens";
  useTitle(ticker === undefined ? title : `${formatChance(ticker.last_price)} ${title}`);
  if (markets === undefined) return <Loading what="the market" rows={8} />;
  // Nobody has listed or traded it, so it may be a slip in the address.
  if (market === undefined && ticker === undefined && signed === null) return <Unknown />;
  return (
    <div className="split market">
      <div>
        <nav className="crumb" aria-label="Where you are">
          <a href="#markets">Markets</a> /{" "}
          <span>{[asset.venue_id, market?.category].filter(Boolean).join(" / ")}</span>
        </nav>
        <div className="between">
          <h1>{title}</h1>
          <Siblings asset={asset} markets={markets} tickers={tickers} />
        </div>
        {market === undefined ? (
          <p className="warn">This asset is not listed. Check its id before you trade it.</p>
        ) : null}
        <Place of="the prices">
          <PriceChart asset={asset} outcome={outcome} markets={markets}>
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
        </Place>
        <Facts
          inline
          facts={{
            "Last trade": ticker && (
              <>
                <Price price={ticker.last_price} />, <When at={ticker.last_price_at} />
              </>
            ),
            "Low to high, 24 h": ticker && lowToHigh(ticker.prices),
            "Volume, 24 h": ticker && `${compactUnits(ticker.usdc_amount)} USDC`,
            Fee: feeBps === 0n ? "" : `${Number(feeBps) / 100} %`,
            Closes: market?.status === "open" && market.closes_at && fromNow(market.closes_at),
          }}
        />
        <div className="columns after">
          {signed === null ? null : (
            <Place of="your position">
              <div>
                <PositionPart asset={asset} outcome={outcome} />
                {market?.status === "open" ? <Redeem market={market} isPaid={false} /> : null}
              </div>
            </Place>
          )}
          <Place of="the trades">
            <RecentTrades asset={asset} />
          </Place>
        </div>
        {market === undefined ? null : <Rules market={market} />}
      </div>
      {market?.status === "closed" ? (
        <aside>
          <Ended market={market} outcome={outcome} />
        </aside>
      ) : signed === null ? (
        <aside>
          <Invitation asset={asset} outcome={outcome} />
        </aside>
      ) : (
        <TicketPlace startsOpen={sells} asset={asset} outcome={outcome}>
          <Ticket {...{ asset, outcome, feeBps, sells }} lastPrice={ticker?.last_price ?? null} />
        </TicketPlace>
      )}
    </div>
  );
}

type TicketPlaceProps = {
  startsOpen: boolean;
  asset: MarketAsset;
  outcome: string;
  children: ReactNode;
};

/** Beside the market, and on a phone a sheet over it. */
function TicketPlace({ startsOpen, asset, outcome, children }: TicketPlaceProps) {
  const [isOpen, setOpen] = useState(startsOpen);
  const requests = useMyRequests({ optional: true });
  const isAsked = requests?.some((one) => assetKey(one) === assetKey(asset)) === true;
  return (
    <>
      <aside className={isOpen ? "in-sheet open" : "in-sheet"}>
        <button type="button" className="quiet sheet-close" onClick={() => setOpen(false)}>
          Close
        </button>
        <Place of="your requests">{children}</Place>
      </aside>
      {isOpen ? null : (
        <button type="button" className="primary ask-bar" onClick={() => setOpen(true)}>
          {isAsked ? "See your quotes" : `Trade ${outcome}`}
        </button>
      )}
    </>
  );
}

function lowToHigh(prices: readonly (number | null)[]): string {
  const known = prices.filter((price) => price !== null);
  return known.length < 2
    ? ""
    : `${roughPrice(Math.min(...known))} to ${roughPrice(Math.max(...known))}`;
}

/** In place of the ticket for a visitor. */
function Invitation({ asset, outcome }: { asset: MarketAsset; outcome: string }) {
  return (
    <section className="card ticket" aria-label="Ask for quotes">
      <h2>Ask for quotes on {outcome}</h2>
      <p>
        Makers compete for your size, and you see the price before you pay. You need an account.
      </p>
      <a className="button big" href={`#sign-in/${marketHref(asset).slice(1)}`}>
        Sign in to ask for quotes
      </a>
    </section>
  );
}

function Rules({ market: { description, rules_url, url } }: { market: Market }) {
  const links = [
    ["The rules of the result", rules_url],
    ["The market at the venue", url],
  ] as const;
  return (
    <>
      {description === null ? null : (
        <div className="after">
          <h2>What decides it</h2>
          <p>{description}</p>
        </div>
      )}
      {links.map(([text, href]) =>
        href === null ? null : (
          <p key={text} className="after">
            <a href={href} rel="noreferrer" target="_blank">
              {text}
            </a>
          </p>
        ),
      )}
    </>
  );
}

type SiblingsProps = { asset: MarketAsset; markets: readonly Market[]; tickers: Tickers };

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

export function RecentTrades({ asset }: { asset: MarketAsset }) {
  const trades = useList(
    ["trades", asset.venue_id, asset.asset_id],
    (client) => client.rfq.trades({ ...asset, limit: TRADES }),
    { refetchEvery: REFRESH_MS },
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
          [
            "Price",
            ({ price }) => (
              <b>
                <Price price={price} />
              </b>
            ),
            "number",
          ],
          ["USDC", ({ usdc_amount }) => usdcOf(usdc_amount), "number"],
          ["When", ({ created_at }) => <When at={created_at} />, "number"],
        ]}
      />
    </Part>
  );
}
