/** The quotes on one's open request: the best one large, the others folded. */
import type { Quote, QuoteRequest } from "@rfq-custody/client";
import { skipToken, useQuery } from "@tanstack/react-query";
import { useMemo, useRef, useState, useSyncExternalStore } from "react";
import { useConnection } from "../live/connection.ts";
import { RECEIVED_QUOTES, REFUSED_ACCEPTS } from "../live/live.tsx";
import { useAct, useList } from "../session/session.tsx";
import { useTitle } from "../title.ts";
import { ActionButton } from "../ui/actions.tsx";
import { clockNow, everyQuarterSecond } from "../ui/clock.ts";
import { Facts } from "../ui/records.tsx";
import { Countdown, Price, Ring, usdcOf } from "../ui/values.tsx";
import {
  formatPrice,
  formatTokens,
  formatUnits,
  roughPrice,
  sizeOf,
  toCent,
  upToCent,
} from "../units.ts";
import { isBetter, nextShown, NOTHING_SHOWN, totalOf } from "./shown-quote.ts";

/** As many as a side of a request has. */
const MOST_QUOTES = 500;
const DOING: Record<QuoteRequest["side"], string> = {
  Bid: "Buying",
  Ask: "Selling",
  TwoWay: "Asking both prices for",
};

type AcceptProps = { accepting: boolean; accept: (quote: Quote) => Promise<void> };
type MarketProps = AcceptProps & { lastPrice: number | null };
type QuotesProps = MarketProps & {
  request: QuoteRequest;
  outcome: string;
  /** Called before the person ends the request. */
  ending: () => void;
};

export function Quotes({ request, outcome, ending, ...market }: QuotesProps) {
  const act = useAct("my-requests");
  const { request_id, side, expires_at } = request;
  const cancel = () => {
    ending();
    return act((client) => client.rfq.cancelRequest({ request_id }));
  };
  const askAgain = () => {
    ending();
    return act(async (client) => {
      await client.rfq.cancelRequest({ request_id });
      return client.rfq.request(sameTerms(request));
    });
  };
  const sides = side === "TwoWay" ? (["Bid", "Ask"] as const) : [side];
  return (
    <section className="card ticket" aria-label="Quotes on your request">
      <div className="between">
        <h2 tabIndex={-1}>
          {DOING[side]} {sizeOf(request)} {outcome}
        </h2>
        <ActionButton label="Cancel request" kind="link" run={cancel} />
      </div>
      {sides.map((one) => (
        <BestQuote
          key={one}
          {...{ request_id, outcome, askAgain, ...market }}
          side={one}
          isOne={sides.length === 1}
        />
      ))}
      <Standing request={request} />
      <p className="muted">
        Makers can answer for <Countdown until={expires_at} />. A better price takes the place of
        this one, a worse one never does.
      </p>
    </section>
  );
}

function sameTerms(request: QuoteRequest) {
  const { venue_id, asset_id, side, amount, usdc_amount, accept_price } = request;
  const expires_in_secs = Math.round(
    (Date.parse(request.expires_at) - Date.parse(request.created_at)) / 1_000,
  );
  const size = amount === undefined ? { usdc_amount: usdc_amount ?? 0n } : { amount };
  return { venue_id, asset_id, side, expires_in_secs, accept_price: accept_price ?? null, ...size };
}

/** The price at which a quote is taken without a click, and why one was not. */
function Standing({ request: { request_id, accept_price: limit } }: { request: QuoteRequest }) {
  const { data: refused } = useQuery<string>({
    queryKey: [...REFUSED_ACCEPTS, request_id],
    queryFn: skipToken,
  });
  if (typeof limit !== "number") return null;
  return (
    <p role="status" className={refused === undefined ? "muted" : "warn"}>
      {refused === undefined
        ? `The first quote at ${formatPrice(limit)} or better is taken at once.`
        : `A quote at ${formatPrice(limit)} or better was not taken: ${refused.replaceAll("_", " ")}.`}
    </p>
  );
}

type BestQuoteProps = MarketProps & {
  request_id: string;
  outcome: string;
  side: Quote["side"];
  isOne: boolean;
  askAgain: () => Promise<unknown>;
};

function BestQuote(props: BestQuoteProps) {
  const { request_id, outcome, side, isOne, lastPrice, askAgain, accepting, accept } = props;
  const open = useList([...RECEIVED_QUOTES, request_id, side], (client) =>
    client.rfq.quotes({ request_id, side, status: "open", limit: MOST_QUOTES }),
  );
  const quotes = useMemo(() => (open ?? []).filter((one) => one.side === side), [open, side]);
  const [shown, setShown] = useState(NOTHING_SHOWN);
  const seen = useRef(new Set<string>());
  for (const { quote_id } of quotes) seen.current.add(quote_id);
  const renewed = () => nextShown(shown, quotes, clockNow());
  // Renders when another quote is to be shown, not at each tick.
  const isDue = useSyncExternalStore(everyQuarterSecond, () => renewed() !== shown);
  const next = isDue ? renewed() : shown;
  if (next !== shown) setShown(next);
  const { quote, deadUntil } = next;
  const others = quotes
    .filter((one) => one.quote_id !== quote?.quote_id && Date.parse(one.expires_at) > clockNow())
    .toSorted((one, other) => Number(isBetter(other, one)) - Number(isBetter(one, other)));
  const isLive = useConnection() === "live";
  const count = quote === null ? 0 : others.length + 1;
  useTitle(
    quote === null ? null : `${countOf(count)}, ${roughPrice(quote.price)} · ${outcome}`,
    true,
  );
  const heading = isOne ? "" : side === "Bid" ? "You buy. " : "You sell. ";
  if (quote === null)
    return (
      <div className="best none" aria-live="polite">
        <p>
          <b>{heading}</b>
          {seen.current.size === 0
            ? `No maker ${side === "Bid" ? "sells" : "buys"} yet. Quotes appear here, mostly within seconds.`
            : `${seen.current.size === 1 ? "The quote has" : `All ${seen.current.size} quotes have`} ended.`}
        </p>
        {seen.current.size > 0 && isOne ? (
          <ActionButton kind="primary" label="Ask again" run={askAgain} />
        ) : null}
      </div>
    );
  return (
    <>
      <div className={deadUntil === null ? "best rising" : "best over"}>
        <div className="price-line">
          <p aria-live="polite">
            <span className="muted">
              <b>{heading}</b>
              {count === 1 ? "One quote" : `Best of ${count} quotes`}
            </span>
            <b className="chance">
              <Price price={quote.price} />
            </b>
            {lastPrice === null ? null : <Compared quote={quote} lastPrice={lastPrice} />}
          </p>
          {deadUntil === null ? <Ring from={quote.created_at} until={quote.expires_at} /> : null}
        </div>
        <Facts
          facts={{
            [`${formatTokens(toCent(quote.amount))} at ${roughPrice(quote.price)}`]: centsText(
              quote.usdc_amount,
              side,
            ),
            Fee: usdcOf(quote.fee),
          }}
          total={[
            side === "Bid" ? "You pay" : "You get",
            <span key="total" title={formatUnits(totalOf(quote))}>
              {centsText(totalOf(quote), side)} USDC
            </span>,
          ]}
        />
        <AcceptButton
          quote={quote}
          dead={deadUntil !== null || !isLive}
          {...{ accepting, accept }}
        />
        {deadUntil === null ? null : (
          <p role="status" className="warn">
            This quote has ended. The next one can be accepted in a second.
          </p>
        )}
      </div>
      {others.length === 0 ? null : <Others quotes={others} best={quote} />}
    </>
  );
}

const countOf = (count: number) => (count === 1 ? "1 quote" : `${count} quotes`);

/** Never less than what is paid, and never more than what comes. */
function centsText(amount: bigint, side: Quote["side"]): string {
  return formatUnits(side === "Bid" ? upToCent(amount) : toCent(amount));
}

/** Folded, and not there until it is opened, because a flood would change it all the time. */
function Others({ quotes, best }: { quotes: readonly Quote[]; best: Quote }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>{quotes.length === 1 ? "1 other quote" : `${quotes.length} other quotes`}</summary>
      <ol className="others">
        {(isOpen ? quotes : []).map((other) => (
          <li key={other.quote_id}>
            <b>
              <Price price={other.price} />
            </b>
            <span className="muted">{roughPrice(Math.abs(other.price - best.price))} worse</span>
            <Countdown until={other.expires_at} />
          </li>
        ))}
      </ol>
    </details>
  );
}

function Compared({ quote, lastPrice }: { quote: Quote; lastPrice: number }) {
  const difference = Math.abs(quote.price - lastPrice);
  if (difference === 0) return <span className="muted">the last price</span>;
  const better = quote.side === "Bid" ? quote.price < lastPrice : quote.price > lastPrice;
  return (
    <span className={better ? "up" : "down"} title={`${formatPrice(lastPrice)} when you asked`}>
      {better ? "✓" : "✕"} {roughPrice(difference)} {better ? "better" : "worse"} than the last
      price
    </span>
  );
}

type AcceptButtonProps = AcceptProps & { quote: Quote; dead: boolean };

/** Accepts at the price that it showed when it was pressed, or a better one that came meanwhile. */
function AcceptButton({ quote, dead, accepting, accept }: AcceptButtonProps) {
  const pressed = useRef<Quote | null>(null);
  const press = () => {
    pressed.current = dead || accepting ? null : quote;
  };
  return (
    <button
      type="button"
      className="primary big"
      title={`${formatUnits(totalOf(quote))} USDC`}
      // Not `disabled`: a button that is disabled while it is pressed loses the focus.
      aria-disabled={dead || accepting}
      onPointerDown={press}
      onKeyDown={(event) => {
        if (!event.repeat && (event.key === "Enter" || event.key === " ")) press();
      }}
      onClick={() => {
        const chosen = pressed.current;
        pressed.current = null;
        if (chosen !== null && !dead && !accepting) void accept(chosen);
      }}
    >
      {accepting
        ? "Accepting…"
        : `Accept, ${quote.side === "Bid" ? "pay" : "get"} ${centsText(totalOf(quote), quote.side)} USDC`}
    </button>
  );
}
