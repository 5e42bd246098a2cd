/** The quotes on one's open request: the best one large, the others folded. */
import type { Match, Quote, QuoteRequest } from "@rfq-custody/client";
import { skipToken, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useRef, useState, useSyncExternalStore } from "react";
import { RECEIVED_QUOTES, REFUSED_ACCEPTS } from "../live/live.tsx";
import { useAct, useClient, useList } from "../session/session.tsx";
import { ActionButton, ProblemText, useAction } from "../ui/form.tsx";
import { clockNow, everyQuarterSecond } from "../ui/clock.ts";
import { Countdown, Ring } from "../ui/values.tsx";
import { Facts } from "../ui/records.tsx";
import { formatPrice, formatTokens, formatUnits, sizeOf } from "../units.ts";
import { isBetter, nextShown, NOTHING_SHOWN, totalOf } from "./shown-quote.ts";

/** The service settles an acceptance before this time has passed, or never. */
const ACCEPT_WITHIN_MS = 5_000;
/** As many as a side of a request has. */
const MOST_QUOTES = 500;
const DOING: Record<QuoteRequest["side"], string> = {
  Bid: "Buying",
  Ask: "Selling",
  TwoWay: "Asking both prices for",
};

type MarketProps = { lastPrice: number | null; onMatch: (match: Match) => void };
type QuotesProps = MarketProps & { request: QuoteRequest; outcome: string };

export function Quotes({ request, outcome, ...market }: QuotesProps) {
  const act = useAct("my-requests");
  const { request_id, side, expires_at } = request;
  const cancel = () => act((client) => client.rfq.cancelRequest({ request_id }));
  const sides = side === "TwoWay" ? (["Bid", "Ask"] as const) : [side];
  return (
    <section className="card ticket" aria-label="Quotes on your request">
      <div className="between">
        <h2>
          {DOING[side]} {sizeOf(request)} {outcome}
        </h2>
        <ActionButton label="Cancel request" kind="link" run={cancel} />
      </div>
      {sides.map((one) => (
        <BestQuote key={one} request_id={request_id} side={one} {...market} />
      ))}
      <Standing request={request} />
      <p className="muted">
        Makers can answer for <Countdown until={expires_at} />. A better price takes the place of
        this one, a worse one never does.
      </p>
    </section>
  );
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

type BestQuoteProps = MarketProps & { request_id: string; side: Quote["side"] };

function BestQuote({ request_id, side, lastPrice, onMatch }: BestQuoteProps) {
  const open = useList([...RECEIVED_QUOTES, request_id, side], (client) =>
    client.rfq.quotes({ request_id, side, status: "open", limit: MOST_QUOTES }),
  );
  const quotes = useMemo(() => (open ?? []).filter((one) => one.side === side), [open, side]);
  const [shown, setShown] = useState(NOTHING_SHOWN);
  const renewed = () => nextShown(shown, quotes, clockNow());
  // Renders when another quote is to be shown, not at each tick.
  const isDue = useSyncExternalStore(everyQuarterSecond, () => renewed() !== shown);
  const next = isDue ? renewed() : shown;
  if (next !== shown) setShown(next);
  const { quote, deadUntil } = next;
  const others = quotes
    .filter((one) => one.quote_id !== quote?.quote_id && Date.parse(one.expires_at) > clockNow())
    .toSorted((one, other) => Number(isBetter(other, one)) - Number(isBetter(one, other)));
  if (quote === null)
    return (
      <div className="best" aria-live="polite">
        <p>
          {side === "Bid" ? "No maker sells yet." : "No maker buys yet."} Quotes appear here, mostly
          within seconds.
        </p>
      </div>
    );
  return (
    <>
      <div className={deadUntil === null ? "best" : "best over"}>
        <div className="price-line">
          <p aria-live="polite">
            <span className="muted">
              {others.length === 0 ? "One quote" : `Best of ${others.length + 1} quotes`}
            </span>
            <b className="chance">{formatPrice(quote.price)}</b>
            {lastPrice === null ? null : <Compared quote={quote} lastPrice={lastPrice} />}
          </p>
          {deadUntil === null ? <Ring from={quote.created_at} until={quote.expires_at} /> : null}
        </div>
        <Facts
          facts={{
            [`${formatTokens(quote.amount)} at ${formatPrice(quote.price)}`]: formatUnits(
              quote.usdc_amount,
            ),
            Fee: quote.fee === 0n ? "" : formatUnits(quote.fee),
          }}
          total={[side === "Bid" ? "You pay" : "You get", `${formatUnits(totalOf(quote))} USDC`]}
        />
        <AcceptButton quote={quote} dead={deadUntil !== null} onMatch={onMatch} />
        {deadUntil === null ? null : (
          <p role="status" className="warn">
            This quote has ended. The next one can be accepted in a second.
          </p>
        )}
      </div>
      {others.length === 0 ? null : <Others quotes={others} />}
    </>
  );
}

/** Folded, and not there until it is opened, because a flood would change it all the time. */
function Others({ quotes }: { quotes: readonly Quote[] }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        {quotes.length} other {quotes.length === 1 ? "quote" : "quotes"}
      </summary>
      <ol className="others">
        {(isOpen ? quotes : []).map((other) => (
          <li key={other.quote_id}>
            <b>{formatPrice(other.price)}</b> <Countdown until={other.expires_at} />
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
    <span className={better ? "up" : "down"}>
      {better ? "✓" : "✕"} {formatPrice(difference)} {better ? "better" : "worse"} than the last
      price
    </span>
  );
}

type AcceptButtonProps = { quote: Quote; dead: boolean; onMatch: (match: Match) => void };

/** Accepts at the price that it showed when it was pressed, or a better one that came meanwhile. */
function AcceptButton({ quote, dead, onMatch }: AcceptButtonProps) {
  const client = useClient();
  const queries = useQueryClient();
  const pressed = useRef<Quote | null>(null);
  const [{ busy, error }, run] = useAction();
  const press = () => {
    pressed.current = dead || busy ? null : quote;
  };
  const accept = async ({ request_id, price, side }: Quote) => {
    try {
      const deadline = new Date(clockNow() + ACCEPT_WITHIN_MS);
      onMatch(await client.rfq.accept({ request_id, price, side, not_after: deadline }));
    } finally {
      void queries.invalidateQueries();
    }
  };
  return (
    <>
      <button
        type="button"
        className="primary big"
        // Not `disabled`: a button that is disabled while it is pressed loses the focus.
        aria-disabled={dead || busy}
        onPointerDown={press}
        onKeyDown={(event) => {
          if (!event.repeat && (event.key === "Enter" || event.key === " ")) press();
        }}
        onClick={() => {
          const chosen = pressed.current;
          pressed.current = null;
          if (chosen === null || dead || busy) return;
          run(() => accept(chosen));
        }}
      >
        {busy
          ? "Accepting…"
          : `Accept, ${quote.side === "Bid" ? "pay" : "get"} ${formatUnits(totalOf(quote))} USDC`}
      </button>
      {error === null ? null : <ProblemText error={error} />}
    </>
  );
}
