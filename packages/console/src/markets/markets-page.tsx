/** Home: what trades, what moved, and the one thing to press. */
import { useDeferredValue, useMemo, useState } from "react";
import type { Ticker } from "@rfq-custody/client";
import { useMarketList, useTickers, useVenueOptions } from "../markets.ts";
import { marketHref } from "../router.ts";
import { Choice, SelectField } from "../ui/choices.tsx";
import { Loading } from "../ui/place.tsx";
import { Change, fromNow, When } from "../ui/values.tsx";
import { compactUnits, formatChance } from "../units.ts";
import { cardsOf, type MarketCard, type Outcome, sparklineOf } from "./market-cards.ts";

/** Rows of a card. The others are on the market's page. */
const ROWS = 3;
const SOON_MS = 86_400_000;
const ORDERS = { traded: "Most traded", moved: "Most moved", soon: "Closing soon" } as const;

export function MarketsPage() {
  const [search, setSearch] = useState("");
  const [venue, setVenue] = useState("");
  const [order, setOrder] = useState<keyof typeof ORDERS>("traded");
  const q = useDeferredValue(search);
  const venues = useVenueOptions();
  const { markets, more } = useMarketList(q, venue);
  const tickers = useTickers();
  const cards = useMemo(() => cardsOf(markets ?? [], tickers), [markets, tickers]);
  const chosen = cards.filter(({ closes_at, moved }) =>
    order === "soon"
      ? closes_at !== null && Date.parse(closes_at) - Date.now() < SOON_MS
      : order !== "moved" || moved > 0,
  );
  const shown =
    order === "moved" ? chosen.toSorted((one, other) => other.moved - one.moved) : chosen;
  return (
    <>
      <form
        role="search"
        className="filters"
        onSubmit={(event) => {
          event.preventDefault();
          // The first one found.
          document.querySelector<HTMLElement>(".cards a")?.click();
        }}
        onKeyDown={(event) => {
          if (event.key !== "ArrowDown") return;
          event.preventDefault();
          document.querySelector<HTMLElement>(".cards a")?.focus();
        }}
      >
        <p className="field grow">
          <input
            type="search"
            aria-label="Search markets"
            placeholder="Search markets and outcomes, press /"
            value={search}
            onChange={({ target }) => setSearch(target.value)}
          />
        </p>
        <Choice label="Which" options={ORDERS} value={order} onChange={setOrder} />
        {Object.keys(venues).length > 2 ? (
          <SelectField label="Venue" value={venue} onChange={setVenue} options={venues} />
        ) : null}
      </form>
      {markets === undefined ? <Loading what="markets" rows={8} /> : null}
      {markets !== undefined && shown.length === 0 ? (
        <p className="empty" role="status">
          {q !== "" || venue !== "" || order !== "traded"
            ? "No open market matches. Remove a word or a filter."
            : "No market is listed yet. The operator lists one with `market set`."}
        </p>
      ) : null}
      <ul className="cards" aria-label="Markets">
        {shown.map((card) => (
          <li key={card.question}>
            <Card card={card} />
          </li>
        ))}
      </ul>
      {more === null ? null : (
        <p className="more">
          <span className="muted">
            {order === "traded"
              ? `The ${cards.length} questions that traded most.`
              : `Among the ${cards.length} questions that traded most.`}
          </span>
          <button type="button" onClick={more}>
            Show more
          </button>
        </p>
      )}
    </>
  );
}

function Card({ card: { title, closes_at, outcomes, volume } }: { card: MarketCard }) {
  const [only] = outcomes;
  const rows = outcomes.slice(0, ROWS);
  const traded = outcomes.flatMap(({ ticker }) => ticker?.last_price_at ?? []).toSorted();
  const last = traded.at(-1);
  return (
    <article className="market-card">
      <h2>{title}</h2>
      {only !== undefined && outcomes.length === 1 ? (
        <Single outcome={only} />
      ) : (
        <ul>
          {rows.map((outcome) => (
            <li key={outcome.asset_id}>
              <Row outcome={outcome} />
            </li>
          ))}
        </ul>
      )}
      <p className="meta">
        {volume > 0n ? <span>{compactUnits(volume)} USDC in 24 h</span> : null}
        {outcomes.length > ROWS ? <span>{outcomes.length} outcomes</span> : null}
        {last === undefined ? null : (
          <span>
            Last <When at={last} />
          </span>
        )}
        {closes_at === null ? null : <span className="end">Closes {fromNow(closes_at)}</span>}
      </p>
    </article>
  );
}

function Single({ outcome }: { outcome: Outcome }) {
  const { ticker } = outcome;
  return (
    <a className="single" href={marketHref(outcome)}>
      <span className="sr">{outcome.title}, </span>
      <span>
        <span className="outcome">{outcome.outcome}</span>
        {ticker === undefined ? (
          <span className="muted">no trade in a day</span>
        ) : (
          <>
            <b className="chance">{formatChance(ticker.last_price)}</b>
            <Change change={ticker.change} /> <span className="muted">in a day</span>
          </>
        )}
      </span>
      <Sparkline ticker={ticker} width={160} height={56} />
    </a>
  );
}

function Row({ outcome }: { outcome: Outcome }) {
  const { ticker } = outcome;
  return (
    <a className="row-link" href={marketHref(outcome)}>
      <span className="sr">{outcome.title}: </span>
      <span className="outcome">{outcome.outcome}</span>
      <Sparkline ticker={ticker} width={64} height={20} />
      {ticker === undefined ? (
        <span className="muted">no trade</span>
      ) : (
        <>
          <b>{formatChance(ticker.last_price)}</b>
          <Change change={ticker.change} />
        </>
      )}
    </a>
  );
}

/** Room for the point at the end of the line. */
const EDGE = 4;

type SparklineProps = { ticker: Ticker | undefined; width: number; height: number };

/** The last day of a price. The dotted line is where it began. */
function Sparkline({ ticker, width, height }: SparklineProps) {
  const line = ticker === undefined ? null : sparklineOf(ticker, { width, height });
  if (ticker === undefined || line === null) return <span />;
  return (
    <svg
      className={`spark ${ticker.change < 0 ? "down" : "up"}`}
      viewBox={`${-EDGE} ${-EDGE} ${width + 2 * EDGE} ${height + 2 * EDGE}`}
      width={width + 2 * EDGE}
      height={height + 2 * EDGE}
      aria-hidden="true"
    >
      <path className="base" d={`M0 ${line.startY}H${width}`} />
      <path d={line.path} />
      <circle cx={width} cy={line.endY} r="2.5" />
    </svg>
  );
}
