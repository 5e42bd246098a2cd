/** One outcome of a market: its price, what one holds of it, and the ticket to trade it. */
import type { Candle, Market, MarketAsset } from "@rfq-custody/client";
import { keepPreviousData } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { type Tickers, useConfig, useMarket, useTickers } from "../markets.ts";
import { marketHref } from "../router.ts";
import { useList, useRead } from "../session/session.tsx";
import { Chart } from "../ui/chart.tsx";
import { Choice } from "../ui/form.tsx";
import { Facts, Part, Table } from "../ui/records.tsx";
import { Change, fromNow, resultOf, tokensOf, usdcOf, When } from "../ui/values.tsx";
import { assetKey, compactUnits, formatChance, roughPrice, shortId } from "../units.ts";
import { Ticket } from "./ticket.tsx";

const TRADES = 15;
const REFRESH_MS = 5_000;
const pointOf = ({ start: at, close }: Candle) => ({ at, value: close / 10_000 });
const DAY_MS = 86_400_000;
const RANGES = {
  "1 d": { interval: "1m", ms: DAY_MS },
  "1 w": { interval: "1h", ms: 7 * DAY_MS },
  "3 m": { interval: "1h", ms: 90 * DAY_MS },
  All: { interval: "1d", ms: null },
} as const;
const NAMES = { "1 d": "1 d", "1 w": "1 w", "3 m": "3 m", All: "All" } as const;
/** One page of candles. A longer range shows the newest ones. */
const POINTS = 1_000;
const CHART_REFRESH_MS = 10_000;

export default function MarketPage({ venue_id, asset_id }: { venue_id: string; asset_id: string }) {
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
          <a href="#markets">Markets</a> /{" "}
          <span>{[asset.venue_id, market?.category].filter(Boolean).join(" / ")}</span>
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
                {roughPrice(ticker.last_price)}, <When at={ticker.last_price_at} />
              </>
            ),
            "Volume, 24 h": ticker && `${compactUnits(ticker.usdc_amount)} USDC`,
            Fee: feeBps === 0n ? "" : `${Number(feeBps) / 100} %`,
            Closes: market?.closes_at && fromNow(market.closes_at),
          }}
        />
        <div className="columns after">
          <Position asset={asset} outcome={outcome} />
          <RecentTrades asset={asset} />
        </div>
        {market === undefined ? null : <Rules market={market} />}
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

function Rules({ market: { description, rules_url, url } }: { market: Market }) {
  const links = [
    ["The rules of the result", rules_url],
    ["The market at the venue", url],
  ] as const;
  return (
    <>
      {description === null ? null : <p className="after">{description}</p>}
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

/** An outcome's price over time, with what is known of the price now as `children`. */
function PriceChart({ asset, children }: { asset: MarketAsset; children: ReactNode }) {
  const [range, setRange] = useState<keyof typeof RANGES>("1 w");
  const candles = useRead(
    ["candles", asset.venue_id, asset.asset_id, range],
    async (client) => {
      const { interval, ms } = RANGES[range];
      const from = ms === null ? {} : { from: new Date(Date.now() - ms) };
      const page = await client.rfq.candles({ ...asset, interval, ...from, limit: POINTS }).page();
      return page.items.toReversed();
    },
    { refetchEvery: CHART_REFRESH_MS, placeholderData: keepPreviousData },
  );
  return (
    <figure>
      <div className="between">
        {children}
        <Choice label="Range" options={NAMES} value={range} onChange={setRange} />
      </div>
      <figcaption className="sub">{summaryOf(candles)}</figcaption>
      <Chart rows={candles} point={pointOf} unit="%" height={280} />
    </figure>
  );
}

function summaryOf(candles: readonly Candle[] | undefined): string {
  if (candles === undefined) return "Loading prices…";
  const [first, last] = [candles[0], candles.at(-1)];
  if (first === undefined || last === undefined) return "No trade in this time.";
  const low = Math.min(...candles.map((candle) => candle.low));
  const high = Math.max(...candles.map((candle) => candle.high));
  return (
    `From ${formatChance(first.open)} to ${formatChance(last.close)}, ` +
    `low ${formatChance(low)}, high ${formatChance(high)}`
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
          One {outcome} pays <b>{roughPrice(result)}</b>. Withdraw your tokens from the{" "}
          <a href="#wallet">wallet</a> and redeem them at the venue.
        </p>
      )}
    </section>
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
            "You paid, on average": roughPrice(position.average_price),
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
          ["Price", ({ price }) => <b>{roughPrice(price)}</b>, "number"],
          ["USDC", ({ usdc_amount }) => usdcOf(usdc_amount), "number"],
          ["When", ({ created_at }) => <When at={created_at} />, "number"],
        ]}
      />
    </Part>
  );
}
