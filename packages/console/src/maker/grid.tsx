/** The open requests as rows to price by keyboard: type a price, Enter, and on to the next one. */
import type { Quote } from "@rfq-custody/client";
import { useEffect, useState } from "react";
import { type Choice as RowChoice, firstToEnd, useBoard } from "../live/board.ts";
import { useIsStale } from "../live/connection.ts";
import type { OwnQuotes } from "../live/quote-events.ts";
import { useTickers } from "../markets.ts";
import { nameOf as knownName, textOf, useNames } from "../names.ts";
import { useSession } from "../session/session.tsx";
import { Choice, SelectField } from "../ui/choices.tsx";
import { Loading } from "../ui/place.tsx";
import { assetKey, formatCents, formatTokens } from "../units.ts";
import { useFunds } from "../wallet/balances.ts";
import { RequestRow } from "./request-row.tsx";
import type { Terms } from "./use-offer.ts";

const HEADS = [
  ["Market", "market"],
  ["They", "they"],
  ["Last ¢", "last"],
  ["Your price ¢", "price"],
  ["State", "state"],
  ["You promise", "promise"],
  ["You hold", "hold"],
  ["Left", "left"],
] as const;
const WANTS = { all: "All", Bid: "They buy", Ask: "They sell", TwoWay: "Both" } as const;
const ORDERS = { end: "First to end", market: "Market", newest: "Newest" } as const;

type GridProps = {
  terms: Terms;
  quotes: OwnQuotes;
  look: (request: { venue_id: string; asset_id: string }) => void;
};

export function Grid({ terms, quotes, look }: GridProps) {
  const [{ rows, total }, board] = useBoard();
  const open = total ?? 0;
  const nameOf = useNames();
  const tickers = useTickers();
  const stale = useIsStale();
  const fundsOf = useFunds();
  const { session } = useSession();
  const firm = newestBySide(quotes.open);
  const ended = newestBySide(quotes.ended);
  const won = quotes.ended.find(({ reason }) => reason === "accepted");
  return (
    <>
      <div className="between">
        <h2>{open === 0 ? "Requests" : open === 1 ? "1 request" : `${open} requests`}</h2>
        <Chooser choose={(choice) => board.choose(choice)} />
      </div>
      <p role="status" className="up last-won">
        {won === undefined
          ? ""
          : `✓ ${won.side === "Bid" ? "Sold" : "Bought"} ${formatTokens(won.amount)} ` +
            `${textOf(nameOf(won))} at ${formatCents(won.price)}¢`}
      </p>
      <table className={stale ? "dense stale" : "dense"}>
        <caption className="sr">Open requests. Enter quotes the price that is shown.</caption>
        <thead>
          <tr>
            {HEADS.map(([head, of]) => (
              <th key={head} scope="col" className={`of-${of}`}>
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
              look={look}
              firmBid={firm.get(`${request.request_id} Bid`)}
              firmAsk={firm.get(`${request.request_id} Ask`)}
              endedBid={ended.get(`${request.request_id} Bid`)}
              endedAsk={ended.get(`${request.request_id} Ask`)}
            />
          ))}
        </tbody>
      </table>
      {total === null ? (
        <div className="tall">
          <Loading what="requests" rows={12} />
        </div>
      ) : null}
      {open > rows.length ? (
        <p className="muted">{open - rows.length} more are not shown.</p>
      ) : null}
      {total === 0 ? (
        <p className="empty">Nobody asks for a price now. Requests appear here as they come.</p>
      ) : null}
    </>
  );
}

/** Which rows are there, and in which order. */
function Chooser({ choose }: { choose: (choice: RowChoice) => void }) {
  const [text, setText] = useState("");
  const [wants, setWants] = useState<keyof typeof WANTS>("all");
  const [order, setOrder] = useState<keyof typeof ORDERS>("end");
  useEffect(() => {
    const words = text.toLowerCase().split(" ").filter(Boolean);
    const titleOf = (asset: Parameters<typeof knownName>[0]) =>
      textOf(knownName(asset)).toLowerCase();
    choose({
      fits: (request) =>
        (wants === "all" || request.side === wants) &&
        words.every((word) => titleOf(request).includes(word)),
      order:
        order === "end"
          ? firstToEnd
          : order === "newest"
            ? (one, other) => (one.created_at > other.created_at ? -1 : 1)
            : (one, other) => (titleOf(one) < titleOf(other) ? -1 : 1),
    });
    // `choose` is another function at each rendering, of the same board.
  }, [text, wants, order]);
  return (
    <div className="row chooser">
      <input
        aria-label="Filter by market"
        placeholder="Filter"
        value={text}
        onChange={({ target }) => setText(target.value)}
      />
      <Choice label="They want" options={WANTS} value={wants} onChange={setWants} />
      <SelectField label="Order" options={ORDERS} value={order} onChange={setOrder} />
    </div>
  );
}

/** By request and side. `quotes` are newest first. */
function newestBySide<T extends Quote>(quotes: readonly T[]): ReadonlyMap<string, T> {
  return new Map(quotes.toReversed().map((one) => [`${one.request_id} ${one.side}`, one]));
}
