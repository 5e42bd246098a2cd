/** The open requests as rows to price by keyboard: type a price, Enter, and on to the next one. */
import type { Quote, QuoteRequest } from "@rfq-custody/client";
import { useQueryClient } from "@tanstack/react-query";
import { memo, useState, useSyncExternalStore } from "react";
import { useBoard } from "../live/board.ts";
import { OWN_QUOTES, useConnection } from "../live/live.tsx";
import { type EndedQuote, type OwnQuotes, withOpened } from "../live/quote-events.ts";
import { textOf, useNames, useTickers } from "../markets.ts";
import { marketHref } from "../router.ts";
import { useClient, useSession } from "../session/session.tsx";
import { clockNow, everyQuarterSecond } from "../ui/clock.ts";
import { Countdown, tokensOf } from "../ui/values.tsx";
import { ProblemText, useAction } from "../ui/form.tsx";
import { assetKey, formatCents, formatTokens, parsePrice, sizeOf, tenths } from "../units.ts";
import { useFunds } from "../wallet/balances.tsx";
import { defaultPrice, nextField, obstacle, type Side } from "./quoting.ts";

/** What the maker quotes with. `arm` is called before each quote. */
export type Terms = {
  /** Null: none that can be read, so there is no default price. */
  readonly spread: number | null;
  readonly most: bigint;
  readonly lifeSecs: number;
  readonly arm: () => Promise<void>;
};

const HEADS = ["Market", "They", "Last ¢", "Your price ¢", "You hold", "Left"];
const THEY = {
  Bid: ["up", "▲", "buy", ["Bid"]],
  Ask: ["down", "▼", "sell", ["Ask"]],
  TwoWay: ["", "◆", "both", ["Ask", "Bid"]],
} as const;

export function Grid({ terms, quotes }: { terms: Terms; quotes: OwnQuotes }) {
  const [{ rows, total }, board] = useBoard();
  const open = total ?? 0;
  const nameOf = useNames();
  const tickers = useTickers();
  const stale = useConnection() !== "live";
  const fundsOf = useFunds();
  const { session } = useSession();
  const firm = newestBySide(quotes.open);
  const ended = newestBySide(quotes.ended);
  const won = quotes.ended.find(({ reason }) => reason === "accepted");
  return (
    <>
      <h2>{open === 0 ? "Requests" : open === 1 ? "1 request" : `${open} requests`}</h2>
      <p role="status" className="up">
        {won === undefined
          ? ""
          : `✓ ${won.side === "Bid" ? "Sold" : "Bought"} ${formatTokens(won.amount)} ` +
            `${textOf(nameOf(won))} at ${formatCents(won.price)}¢`}
      </p>
      <table className={stale ? "dense stale" : "dense"}>
        <caption className="sr">
          Open requests, the first to end first. Enter quotes the price that is shown.
        </caption>
        <thead>
          <tr>
            {HEADS.map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody
          ref={(element) => void (board.grid = element)}
          onBlur={board.changed}
          onPointerLeave={board.changed}
        >
          {rows.map(({ request, ended: over }) => (
            <RequestRow
              key={request.request_id}
              request={request}
              over={over || request.user_id === session.user_id}
              {...nameOf(request)}
              last={tickers.get(assetKey(request))?.last_price ?? null}
              fundsBid={fundsOf(request)}
              // Null on the others, so that they do not render again with it.
              fundsAsk={request.side === "Bid" ? null : fundsOf()}
              terms={terms}
              firmBid={firm.get(`${request.request_id} Bid`)}
              firmAsk={firm.get(`${request.request_id} Ask`)}
              endedBid={ended.get(`${request.request_id} Bid`)}
              endedAsk={ended.get(`${request.request_id} Ask`)}
            />
          ))}
        </tbody>
      </table>
      {total === null ? (
        <p role="status" className="tall">
          Loading requests…
        </p>
      ) : null}
      {open > rows.length ? <p className="muted">{open - rows.length} more end later.</p> : null}
      {total === 0 ? (
        <p className="empty">Nobody asks for a price now. Requests appear here as they come.</p>
      ) : null}
    </>
  );
}

/** By request and side. `quotes` are newest first. */
function newestBySide<T extends Quote>(quotes: readonly T[]): ReadonlyMap<string, T> {
  return new Map(quotes.toReversed().map((one) => [`${one.request_id} ${one.side}`, one]));
}

/** Arrows go to every field that is on, Enter past those with a firm quote. */
function focusFrom(field: HTMLInputElement, step: 1 | -1, passed?: string): void {
  const fields = [...(field.closest("table")?.querySelectorAll("input") ?? [])];
  const off = fields.map((one) => one.readOnly || one.className === passed);
  fields[nextField(off, fields.indexOf(field), step) ?? -1]?.focus();
}

type RowProps = {
  request: QuoteRequest;
  over: boolean;
  title: string;
  outcome: string;
  last: number | null;
  /** By the requester's side, what a quote takes: tokens, or USDC. Null: unknown, or not needed. */
  fundsBid: bigint | null;
  fundsAsk: bigint | null;
  terms: Terms;
  firmBid: Quote | undefined;
  firmAsk: Quote | undefined;
  endedBid: EndedQuote | undefined;
  endedAsk: EndedQuote | undefined;
};

const RequestRow = memo(function RequestRow(props: RowProps) {
  const { request, over, title, outcome, last, fundsBid: tokens } = props;
  const name = textOf({ title, outcome });
  const [colour, sign, word, sides] = THEY[request.side];
  return (
    <tr id={request.request_id} className={over ? "muted" : ""}>
      <td>
        <a href={marketHref(request)} title={name}>
          <b>{title}</b> <span className="muted">{outcome}</span>
        </a>
      </td>
      <td className={`they ${colour}`}>
        <span aria-hidden="true">{sign}</span> {word} <b>{sizeOf(request)}</b>
      </td>
      <td className="number" data-title="Last">
        {last === null ? "" : tenths(last)}
      </td>
      <td>
        <div className="prices">
          {sides.map((side) => (
            <PriceField key={side} {...props} name={name} side={side} />
          ))}
        </div>
      </td>
      <td className="number" data-title="Hold">
        {tokensOf(tokens)}
      </td>
      <td className="number" data-title="Left">
        {over ? "over" : <Countdown until={request.expires_at} />}
      </td>
    </tr>
  );
});

type PriceFieldProps = RowProps & { name: string; side: Side };

/** The price in a field, what is said of it, and what quotes it and takes the quote back. */
function useOffer({ request, side, over, last, terms, ...of }: PriceFieldProps) {
  const client = useClient();
  const queries = useQueryClient();
  const [text, setText] = useState("");
  // The default price stays as it is while somebody looks at the field.
  const [kept, setKept] = useState<number | null>(null);
  const [{ busy, error }, run] = useAction();
  const firm = useUnlessExpired(of[`firm${side}`]);
  const shown = firm?.price ?? kept ?? defaultPrice(side, last, terms.spread);
  const price = text === "" ? shown : parsePrice(text);
  // A replacement may use what the quote before it has promised.
  const usable = of[`funds${side}`];
  const funds = usable === null ? null : usable + (firm?.reserve?.amount ?? 0n);
  const reason =
    price === null ? null : obstacle(request, side, price, { funds, most: terms.most });
  const off = over || (reason !== null && text === "" && firm === undefined && !busy);
  const unchanged = firm !== undefined && text === "";
  const place = async () => {
    if (price === null) throw new Error("Enter a price in cents, for example 65.2.");
    if (reason !== null) throw new Error(reason);
    await terms.arm();
    const { request_id } = request;
    const replaces = firm === undefined ? {} : { replaces: firm.quote_id };
    const expires_in_secs = terms.lifeSecs;
    const quote = await client.rfq.quote({ request_id, price, side, expires_in_secs, ...replaces });
    setText("");
    queries.setQueryData<OwnQuotes>(OWN_QUOTES, (before) => before && withOpened(before, quote));
  };
  const placeIfAble = () => {
    if (!off && !busy && !unchanged) run(place);
  };
  const cancel = () => run(async () => firm && client.rfq.cancelQuote(firm));
  const label = `${firm === undefined ? "Quote" : "Replace"} ${price === null ? "" : `${formatCents(price)}¢`}`;
  const said = stateOf(busy, over ? null : reason, of[`ended${side}`]);
  const field = { text, setText, setKept, shown, off };
  return { field, firm, busy, error, unchanged, label, said, placeIfAble, cancel };
}

function PriceField(props: PriceFieldProps) {
  const { request, side, name } = props;
  const { field, firm, busy, error, unchanged, label, said, placeIfAble, cancel } = useOffer(props);
  const { text, setText, setKept, shown, off } = field;
  const [tone, state] = said;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const input = event.currentTarget.querySelector("input");
        placeIfAble();
        // After a press of the button a phone would open its keyboard for a field nobody touched.
        if (input !== null && input === document.activeElement) focusFrom(input, 1, "firm");
      }}
    >
      {request.side === "TwoWay" ? (
        <small className="muted" aria-hidden="true">
          {side === "Bid" ? "sell" : "buy"}
        </small>
      ) : null}
      <input
        className={firm === undefined ? "" : "firm"}
        aria-label={`You ${side === "Bid" ? "sell" : "buy"} at, ${name}, cents`}
        inputMode="decimal"
        autoComplete="off"
        placeholder={shown === null ? "" : formatCents(shown)}
        value={text}
        readOnly={off}
        aria-disabled={off}
        onFocus={() => setKept(shown)}
        onBlur={() => setKept(null)}
        onChange={({ target }) => setText(target.value)}
        onKeyDown={(event) => {
          const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
          if (step === 1 || step === -1) {
            event.preventDefault();
            focusFrom(event.currentTarget, step);
          } else if (event.key === "Escape" && !event.shiftKey)
            if (unchanged) cancel();
            else setText("");
        }}
      />
      <button type="submit" aria-label={`${label}, ${name}`} disabled={off || busy || unchanged}>
        {label}
      </button>
      {firm === undefined || busy ? (
        <span className={tone}>{state}</span>
      ) : (
        <span className="muted">
          firm, <Countdown until={firm.expires_at} />{" "}
          <button type="button" className="link" aria-label={`Cancel ${name}`} onClick={cancel}>
            ✕
          </button>
        </span>
      )}
      {error === null ? null : <ProblemText error={error} />}
    </form>
  );
}

function useUnlessExpired(quote: Quote | undefined): Quote | undefined {
  const lives = () => quote !== undefined && Date.parse(quote.expires_at) > clockNow();
  return useSyncExternalStore(everyQuarterSecond, lives) ? quote : undefined;
}

/** What is said beside the price, and its colour. */
function stateOf(
  busy: boolean,
  reason: string | null,
  ended: EndedQuote | undefined,
): readonly [string, string] {
  if (busy) return ["muted", "sending…"];
  if (ended?.reason === "accepted") return ["up", `✓ won at ${formatCents(ended.price)}¢`];
  if (reason !== null) return ["warn", reason];
  const lost = ended?.winning_price ?? null;
  if (ended === undefined || lost === null) return ["", ""];
  return ["muted", `lost by ${formatCents(Math.abs(ended.price - lost))}¢`];
}
