/** How the maker does: what is promised and at risk now, the day's trades, and the last quotes. */
import type { Match } from "@rfq-custody/client";
import type { ReactNode } from "react";
import type { OwnQuotes } from "../live/quote-events.ts";
import { type Tickers, useTickers } from "../markets.ts";
import { useList, useWhole } from "../session/session.tsx";
import { clockNow } from "../ui/clock.ts";
import { Facts, Part } from "../ui/records.tsx";
import { Result, usdcOf } from "../ui/values.tsx";
import { assetKey, formatCents, worth } from "../units.ts";
import { useBalance } from "../wallet/balances.ts";
import { atRisk, averages, priceAfter } from "./quoting.ts";

const NEWEST = 500;
const BARS = 12;
const RESULTS_MS = 15_000;

/** The sums over all open quotes. */
export function Exposure({ quotes: { open } }: { quotes: OwnQuotes }) {
  const promised = useBalance()?.promised ?? 0n;
  const risk = open.reduce(
    (sum, { amount, side, price }) => sum + atRisk({ amount }, side, price),
    0n,
  );
  return (
    <Part title="Now">
      <Facts
        facts={{
          "Open quotes": open.length === 0 ? "none" : open.length,
          "Promised, USDC": usdcOf(promised),
          "At risk if all trade, USDC": usdcOf(risk),
        }}
      />
    </Part>
  );
}

/** The trades as maker since midnight, with their tokens at the last price. */
export function Today() {
  const tickers = useTickers();
  const midnight = new Date(clockNow()).setHours(0, 0, 0, 0);
  const read = useWhole(["matches", "today", midnight], (client) =>
    client.rfq.matches({ role: "maker", from: new Date(midnight), limit: NEWEST }),
  );
  if (read === undefined || read.items.length === 0) return null;
  const traded = read.items.reduce((sum, { usdc_amount }) => sum + usdc_amount, 0n);
  const results = read.items.map((match) => resultOf(match, tickers));
  const known = results.filter((one) => one !== null);
  return (
    <Part title="Today">
      <Facts
        facts={{
          [read.isCut ? "Traded at least, USDC" : "Traded, USDC"]: usdcOf(traded),
          Trades: read.items.length,
          "Result at the last prices, USDC":
            known.length === 0 ? "" : <Result result={known.reduce((sum, one) => sum + one, 0n)} />,
        }}
      />
    </Part>
  );
}

/** Of a trade as maker. Null: nobody knows what the tokens are worth now. */
function resultOf(match: Match, tickers: Tickers): bigint | null {
  const last = tickers.get(assetKey(match))?.last_price;
  if (last === undefined) return null;
  const now = worth(match.amount, last);
  // A requester's Bid is the maker's sale.
  return (match.side === "Bid" ? match.usdc_amount - now : now - match.usdc_amount) - match.fee;
}

/** How the maker's quotes did: how many traded, and where the price went afterwards. */
export function Results({ quotes: { ended } }: { quotes: OwnQuotes }) {
  const tickers = useTickers();
  const quotes = useList(
    ["matches", "quotes"],
    (client) => client.rfq.myQuotes({ limit: NEWEST }),
    { refetchEvery: RESULTS_MS },
  );
  // One that the maker took back or replaced says nothing about its price.
  const decided = (quotes ?? []).filter(({ status }) => !["open", "cancelled"].includes(status));
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
function Bars(props: { title: string; values: readonly number[]; children: ReactNode }) {
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
