/**
 * Asks for quotes on one outcome, shows them, and says what became of it. What an action has caused
 * is kept here, because quotes and requests end while somebody reads.
 */
import type { MarketAsset, Match, Quote, QuoteRequest } from "@rfq-custody/client";
import { NoAnswer } from "@rfq-custody/client";
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { useConnection } from "../live/connection.ts";
import { useMyRequests } from "../portfolio/my-requests.ts";
import { useClient } from "../session/session.tsx";
import { clockNow } from "../ui/clock.ts";
import { Loading } from "../ui/place.tsx";
import { explain } from "../ui/problems.ts";
import { assetKey } from "../units.ts";
import { Quotes } from "./quotes.tsx";
import { Receipt } from "./receipt.tsx";
import { type Draft, EMPTY_DRAFT, TicketForm } from "./ticket-form.tsx";

/** The service settles an acceptance before this time has passed, or never. */
const ACCEPT_WITHIN_MS = 5_000;

export type TicketProps = {
  asset: MarketAsset;
  outcome: string;
  lastPrice: number | null;
  feeBps: bigint;
  /** Whether it begins with all that is held for sale. */
  sells: boolean;
};

export function Ticket({ sells, ...ticket }: TicketProps) {
  const { asset, outcome, lastPrice } = ticket;
  const connection = useConnection();
  const requests = useMyRequests();
  const request = requests?.find((one) => assetKey(one) === assetKey(asset));
  const [draft, setDraft] = useState<Draft>({ ...EMPTY_DRAFT, side: sells ? "Ask" : "Bid" });
  const [said, setSaid] = useState<ReactNode>(null);
  const [receipt, setReceipt] = useState<Match | null>(null);
  /** A price that changes while somebody compares with it would turn better into worse. */
  const before = useFixed(request?.request_id, lastPrice);
  const { accepting, accept } = useAccept(setReceipt, setSaid);
  const cancelled = useRef("");
  useEnding(request, (match, last) => {
    if (match !== null) {
      setSaid(null);
      setReceipt(match);
    } else if (cancelled.current !== last.request_id)
      setSaid((was: ReactNode) => was ?? "Your request has ended without a trade. Ask again.");
  });
  const place = useFocus(`${receipt?.match_id} ${request?.request_id}`);
  const shown = () => {
    if (receipt !== null)
      return (
        <Receipt
          match={receipt}
          before={before}
          outcome={outcome}
          close={() => {
            setReceipt(null);
            setDraft({ ...draft, size: "", limit: "" });
          }}
        />
      );
    // The form must not be there for a moment and then give way to an open request.
    if (requests === undefined) return <Loading what="your requests" rows={6} />;
    if (request === undefined)
      return <TicketForm {...ticket} draft={draft} change={setDraft} asked={() => setSaid(null)} />;
    return (
      <Quotes
        key={request.request_id}
        {...{ request, outcome, accepting, accept }}
        lastPrice={before}
        ending={() => {
          cancelled.current = request.request_id;
          setSaid(null);
        }}
      />
    );
  };
  return (
    <div ref={place}>
      {connection === "lost" ? (
        <p role="status" className="warn card">
          The connection is lost. Your requests and their quotes go on without this page.
        </p>
      ) : null}
      {said === null ? null : (
        <p role="alert" className="warn card">
          {said}
        </p>
      )}
      {shown()}
    </div>
  );
}

/** What `price` was when `key` began, or the first one known since. */
function useFixed(key: string | undefined, price: number | null): number | null {
  const kept = useRef<{ key: string | undefined; price: number | null }>({ key, price });
  if (key !== undefined && (kept.current.key !== key || kept.current.price === null))
    kept.current = { key, price };
  return kept.current.price;
}

/** Accepts, and says in every case what became of it. */
function useAccept(onMatch: (match: Match) => void, say: (text: ReactNode) => void) {
  const client = useClient();
  const queries = useQueryClient();
  const [accepting, setAccepting] = useState(false);
  const accept = async ({ request_id, price, side }: Quote) => {
    setAccepting(true);
    say(null);
    try {
      const deadline = new Date(clockNow() + ACCEPT_WITHIN_MS);
      onMatch(await client.rfq.accept({ request_id, price, side, not_after: deadline }));
    } catch (error) {
      say(
        error instanceof NoAnswer
          ? "No answer came. If it was traded, the receipt appears here and in your portfolio."
          : `Not traded. ${explain(error)}`,
      );
    } finally {
      setAccepting(false);
      void queries.invalidateQueries();
    }
  };
  return { accepting, accept };
}

/** Calls `ended` once a request is no longer open, with the trade that ended it if one did. */
function useEnding(
  request: QuoteRequest | undefined,
  ended: (match: Match | null, last: QuoteRequest) => void,
): void {
  const client = useClient();
  const before = useRef<QuoteRequest>(undefined);
  const latest = useRef(ended);
  useEffect(() => {
    latest.current = ended;
  });
  useEffect(() => {
    const last = before.current;
    before.current = request;
    if (last === undefined || last.request_id === request?.request_id) return;
    const find = async () => {
      const { items } = await client.rfq.matches({ limit: 10 }).page();
      return items.find(({ request_id }) => request_id === last.request_id) ?? null;
    };
    // The portfolio shows the trade in any case.
    find().then(
      (match) => latest.current(match, last),
      () => undefined,
    );
  }, [client, request]);
}

/** Moves the focus to the heading of what took the place of the control that had it. */
function useFocus(shown: string) {
  const place = useRef<HTMLDivElement>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current && document.activeElement === document.body)
      place.current?.querySelector<HTMLElement>("h2")?.focus({ preventScroll: true });
    isFirst.current = false;
  }, [shown]);
  return place;
}
