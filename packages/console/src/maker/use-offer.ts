/** The price of one side of a request: what the field shows, what is said of it, what sends it. */
import { Problem, type Quote, type QuoteRequest } from "@rfq-custody/client";
import { useQueryClient } from "@tanstack/react-query";
import { useState, useSyncExternalStore } from "react";
import { OWN_QUOTES } from "../live/live.tsx";
import { type EndedQuote, type OwnQuotes, withOpened } from "../live/quote-events.ts";
import { useClient } from "../session/session.tsx";
import { useAction } from "../ui/actions.tsx";
import { clockNow, everyQuarterSecond } from "../ui/clock.ts";
import { explain } from "../ui/problems.ts";
import { formatCents, parsePrice } from "../units.ts";
import { defaultPrice, farFrom, obstacle, type Side, stepFrom } from "./quoting.ts";

/** What the maker quotes with. `arm` is called before each quote. */
export type Terms = {
  /** Null: none that can be read, so there is no default price. */
  readonly spread: number | null;
  readonly most: bigint;
  /** A price that is further from the last one is asked for twice. */
  readonly collar: number | null;
  readonly lifeSecs: number;
  readonly arm: () => Promise<void>;
};

export type OfferProps = {
  request: QuoteRequest;
  over: boolean;
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

export function useOffer({ request, over, last, terms, ...of }: OfferProps, side: Side) {
  const client = useClient();
  const queries = useQueryClient();
  const [text, setText] = useState("");
  // The default price stays as it is while somebody looks at the field.
  const [kept, setKept] = useState<number | null>(null);
  /** A price that was far from the last one when it was asked for. */
  const [asked, setAsked] = useState<number | null>(null);
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
  const place = async (isConfirmed: boolean) => {
    if (price === null) throw new Error("Cents, as 65.2");
    if (reason !== null) throw new Error(reason);
    await terms.arm();
    const quote = await client.rfq.quote({
      request_id: request.request_id,
      price,
      side,
      expires_in_secs: terms.lifeSecs,
      ...(firm === undefined ? {} : { replaces: firm.quote_id }),
      ...(isConfirmed ? { confirm_price: true } : {}),
    });
    setText("");
    queries.setQueryData<OwnQuotes>(OWN_QUOTES, (before) => before && withOpened(before, quote));
  };
  /** Whether the field is done with, so that the next one may have the focus. */
  const placeIfAble = (): boolean => {
    if (off || busy || unchanged) return true;
    const isConfirmed = price !== null && asked === price;
    if (price !== null && !isConfirmed && farFrom(last, price, terms.collar) !== null) {
      setAsked(price);
      return false;
    }
    setAsked(null);
    run(() =>
      place(isConfirmed).catch((failure: unknown) => {
        // The service's own collar, which the account has set.
        if (failure instanceof Problem && failure.code === "price_out_of_range") setAsked(price);
        throw failure;
      }),
    );
    return true;
  };
  const cancel = () => run(async () => firm && client.rfq.cancelQuote(firm));
  const step = (direction: 1 | -1) => {
    if (price !== null && !off) setText(formatCents(stepFrom(price, direction)));
  };
  const far = asked !== null && asked === price ? Math.abs(price - (last ?? price)) : null;
  const state = stateOf({
    busy,
    far,
    error,
    reason: over ? null : reason,
    ended: of[`ended${side}`],
  });
  const label = `${firm === undefined ? "Quote" : "Replace"} ${price === null ? "" : `${formatCents(price)}¢`}`;
  const field = { text, setText, setKept, shown, off };
  return { field, price, firm, busy, unchanged, label, state, placeIfAble, cancel, step };
}

export type Offer = ReturnType<typeof useOffer>;

function useUnlessExpired(quote: Quote | undefined): Quote | undefined {
  const lives = () => quote !== undefined && Date.parse(quote.expires_at) > clockNow();
  return useSyncExternalStore(everyQuarterSecond, lives) ? quote : undefined;
}

type Said = {
  busy: boolean;
  far: number | null;
  error: unknown;
  reason: string | null;
  ended: EndedQuote | undefined;
};

/** What is said of a price that is not firm, and its colour. */
function stateOf({ busy, far, error, reason, ended }: Said): readonly [string, string] {
  if (busy) return ["muted", "sending…"];
  if (far !== null) return ["warn", `${formatCents(far)}¢ from last. Enter again`];
  if (error !== null) return ["problem", explain(error)];
  if (ended?.reason === "accepted") return ["up", `✓ won at ${formatCents(ended.price)}¢`];
  if (reason !== null) return ["warn", reason];
  const lost = ended?.winning_price ?? null;
  if (ended === undefined || lost === null) return ["", ""];
  return ["muted", `lost by ${formatCents(Math.abs(ended.price - lost))}¢`];
}
