/** How the maker's quotes did: how many traded, and where the price went afterwards. */
import type { OwnQuotes } from "../live/quote-events.ts";
import { assetKey } from "../markets/market-cards.ts";
import { useTickers } from "../markets.ts";
import { useList } from "../session/use-service.ts";
import { clockNow } from "../ui/clock.ts";
import { Part } from "../ui/facts.tsx";
import { formatCents } from "../units.ts";
import { averages, priceAfter } from "./quoting.ts";

const NEWEST = 500;
const BARS = 12;
const REFRESH_MS = 15_000;

export function Results({ quotes: { ended } }: { quotes: OwnQuotes }) {
  const tickers = useTickers();
  const quotes = useList(
    ["matches", "quotes"],
    (client) => client.rfq.myQuotes({ limit: NEWEST }),
    { refetchEvery: () => REFRESH_MS },
  );
  // One that the maker took back or replaced says nothing about its price.
  const decided = (quotes ?? []).filter(
    ({ status }) => status !== "open" && status !== "cancelled",
  );
  const won = decided.map(({ status }) => Number(status === "accepted")).toReversed();
  const lost = ended.flatMap(({ price, winning_price: best }) =>
    best === null ? [] : [Math.abs(price - best)],
  );
  const moved = decided.toReversed().flatMap(({ status, side, price, created_at, ...asset }) => {
    const ticker = tickers.get(assetKey(asset));
    if (status !== "accepted" || ticker === undefined) return [];
    const after = priceAfter(ticker, created_at, clockNow());
    return after === null ? [] : [side === "Bid" ? price - after : after - price];
  });
  const [move = 0] = averages(moved, 1);
  const [missed] = averages(lost, 1);
  return (
    <Part title="Results">
      {quotes !== undefined && won.length === 0 ? (
        <p className="empty">No quote has ended yet. Price a request to begin.</p>
      ) : null}
      {won.length === 0 ? null : (
        <Bars
          title={`${won.filter(Boolean).length} of your last ${won.length} quotes traded`}
          values={averages(won, BARS)}
        >
          {missed === undefined
            ? "Oldest on the left."
            : `Oldest on the left. Lost ones were ${cents(missed)} away on average.`}
        </Bars>
      )}
      {moved.length === 0 ? null : (
        <Bars
          title={`${move < 0 ? "−" : "+"}${cents(Math.abs(move))} an hour after your trades`}
          values={averages(moved, BARS)}
        >
          Above the line the price moved your way.
        </Bars>
      )}
    </Part>
  );
}

function cents(average: number): string {
  return `${formatCents(Math.round(average / 1_000) * 1_000)}¢`;
}

/** Bars above and below a line. The title says in words what they show. */
function Bars(props: { title: string; values: readonly number[]; children: string }) {
  const { title, values, children } = props;
  const high = Math.max(0, ...values);
  const low = Math.min(0, ...values);
  const scale = 40 / (high - low || 1);
  return (
    <figure>
      <figcaption>{title}</figcaption>
      <svg width="100%" height="64" viewBox="0 0 120 40" preserveAspectRatio="none" aria-hidden>
        {values.map((value, index) => (
          <rect
            // The place is what identifies a bar.
            key={index}
            className={value < 0 ? "down" : "up"}
            fill="currentColor"
            x={index * 10 + 2}
            width="6"
            y={(high - Math.max(0, value)) * scale}
            height={Math.max(1, Math.abs(value) * scale)}
          />
        ))}
      </svg>
      <small className="hint">{children}</small>
    </figure>
  );
}
