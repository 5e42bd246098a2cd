/**
 * What the account's stream reports, brought into the queries of the page. A stream reconnects by
 * itself and resumes where it was; until then the tables are greyed.
 */
import type { Quote, StreamMessage } from "@rfq-custody/client";
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { useClient, useRead } from "../session/session.tsx";
import { clock, paced } from "../ui/clock.ts";
import { type Connection, ConnectionContext } from "./connection.ts";
import { sayOutcome } from "./outcomes.ts";
import {
  afterEvents,
  isOfOthers,
  isQuoteEvent,
  OPEN_KEPT,
  type OwnQuotes,
  type QuoteEvent,
  receivedAfter,
} from "./quote-events.ts";

/** Which queries an event of the account makes old, by its type or the first part of it. */
const CHANGES: Record<string, readonly string[]> = {
  "quote.received": ["my-requests"],
  quote: ["balances"],
  match: ["my-requests", "matches", "balances", "ledger", "trades", "tickers"],
  token: ["balances", "ledger"],
  market: ["balances", "market", "markets"],
  request: ["my-requests"],
  deposit: ["deposits", "balances", "ledger"],
  withdrawal: ["withdrawals", "balances", "ledger"],
  protection: ["protection"],
  account: ["api-keys", "audit-events", "whoami", "policy", "withdrawal-addresses"],
};
/** Everybody's, so no event of the account makes them old. */
const PUBLIC = ["config", "markets", "market", "tickers", "candles", "trades"];

export function LiveProvider({ children }: { children: ReactNode }) {
  const client = useClient();
  const queries = useQueryClient();
  const [connection, setConnection] = useState<Connection>("connecting");
  // A renewed session continues where the stream of the last one was.
  const since = useRef<number | undefined>(undefined);
  useEffect(() => {
    const refresh = refresher(queries);
    const stream = client.accountStream({
      ...(since.current === undefined ? {} : { since: since.current }),
      onDisconnect: () => setConnection("lost"),
    });
    let stopped = false;
    const follow = async () => {
      for await (const message of stream) {
        since.current = message.seq;
        if (message.type === "hello") {
          clock.offsetMs = Date.parse(message.data.server_time) - Date.now();
          setConnection("live");
          // Nothing is missed between the reads and the stream, because the reads come second.
          void queries.invalidateQueries({
            predicate: ({ queryKey: [name] }) => !PUBLIC.includes(String(name)),
          });
        } else if (message.type === "resync") void queries.invalidateQueries();
        else refresh.after(message);
      }
    };
    const end = () => stopped || setConnection("ended");
    follow().then(end, end);
    return () => {
      stopped = true;
      stream.close();
      refresh.stop();
    };
  }, [client, queries]);
  // The browser knows at once, while a stream waits for its next ping.
  const isOnline = useSyncExternalStore(whenOnlineChanges, () => navigator.onLine);
  const shown = isOnline || connection === "ended" ? connection : "lost";
  return <ConnectionContext value={shown}>{children}</ConnectionContext>;
}

function whenOnlineChanges(changed: () => void): () => void {
  addEventListener("online", changed);
  addEventListener("offline", changed);
  return () => {
    removeEventListener("online", changed);
    removeEventListener("offline", changed);
  };
}

/** Applies events to the queries at the pace of the page. */
function refresher(queries: QueryClient) {
  const dueNames = new Set<string>();
  let quotes: QuoteEvent[] = [];
  const pace = paced(() => {
    for (const name of dueNames) void queries.invalidateQueries({ queryKey: [name] });
    dueNames.clear();
    if (quotes.length > 0) applyQuotes();
  });
  /** Quotes are not read again for each event, because there may be many a second. */
  const applyQuotes = () => {
    const events = quotes;
    const change = <T,>(queryKey: readonly string[], after: (before: T) => T) =>
      queries.setQueriesData<T>({ queryKey }, (before) => before && after(before));
    change<OwnQuotes>(OWN_QUOTES, (before) => afterEvents(before, events));
    for (const [id, own] of Map.groupBy(events, ({ data }) => data.request_id))
      change<readonly Quote[]>([...RECEIVED_QUOTES, id], (before) => receivedAfter(before, own));
    // A reading that began before the events undoes them, so they are applied again after it.
    const reading = [OWN_QUOTES, RECEIVED_QUOTES].some(
      (key) => queries.isFetching({ queryKey: key }) > 0,
    );
    if (reading) pace.due();
    else quotes = [];
  };
  const after = (message: StreamMessage) => {
    const type = isOfOthers(message) ? "quote.received" : message.type;
    for (const name of CHANGES[type] ?? CHANGES[type.split(".")[0] ?? ""] ?? []) dueNames.add(name);
    if (isQuoteEvent(message)) quotes.push(message);
    sayOutcome(message);
    if (message.type === "accept.refused") {
      const { request_id, reason } = message.data;
      queries.setQueryData([...REFUSED_ACCEPTS, request_id], reason);
    }
    pace.due();
  };
  return { after, stop: pace.cancel };
}

export const OWN_QUOTES = ["my-quotes"];
/** Followed by the request's id: why its standing accept took no quote. */
export const REFUSED_ACCEPTS = ["refused-accepts"];
/** Followed by the request's id. */
export const RECEIVED_QUOTES = ["quotes"];
const NONE: OwnQuotes = { open: [], ended: [] };

/** Read once, then kept current by the account's stream, which alone has the price that won. */
export function useOwnQuotes(): OwnQuotes {
  const queries = useQueryClient();
  const read = useRead(OWN_QUOTES, async (client): Promise<OwnQuotes> => {
    const { items } = await client.rfq.myQuotes({ status: "open", limit: OPEN_KEPT }).page();
    return { open: items, ended: queries.getQueryData<OwnQuotes>(OWN_QUOTES)?.ended ?? [] };
  });
  return read ?? NONE;
}
