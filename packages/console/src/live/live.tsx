/**
 * What the account's stream reports, brought into the queries of the page. A stream reconnects by
 * itself and resumes where it was; until then the tables are greyed.
 */
import type { Quote, StreamMessage } from "@rfq-custody/client";
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, use, useEffect, useRef, useState } from "react";
import { useClient } from "../session/session.tsx";
import { clock, paced } from "../ui/clock.ts";
import { OWN_QUOTES, RECEIVED_QUOTES } from "./own-quotes.ts";
import {
  afterEvents,
  isOfOthers,
  isQuoteEvent,
  type OwnQuotes,
  type QuoteEvent,
  receivedAfter,
} from "./quote-events.ts";

export type Connection = "connecting" | "live" | "lost" | "ended";

const ConnectionContext = createContext<Connection>("connecting");

export const useConnection = () => use(ConnectionContext);

/** Which queries an event of the account makes old, by its type or the first part of it. */
const CHANGES: Record<string, readonly string[]> = {
  "quote.received": ["my-requests"],
  quote: ["balances"],
  match: ["my-requests", "matches", "balances", "ledger", "trades"],
  request: ["my-requests"],
  deposit: ["deposits", "balances", "ledger"],
  withdrawal: ["withdrawals", "balances", "ledger"],
  protection: ["protection"],
  account: ["api-keys", "audit-events", "whoami", "policy", "withdrawal-addresses"],
};
export function LiveProvider({ children }: { children: ReactNode }) {
  const client = useClient();
  const queries = useQueryClient();
  const [connection, setConnection] = useState<Connection>("connecting");
  // A renewed session continues where the stream of the last one was.
  const since = useRef<number | undefined>(undefined);
  useEffect(() => {
    const refresh = new Refresh(queries);
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
          refresh.everything();
        } else if (message.type === "resync") refresh.everything();
        else refresh.after(message);
      }
    };
    follow().then(
      () => stopped || setConnection("ended"),
      () => stopped || setConnection("ended"),
    );
    return () => {
      stopped = true;
      stream.close();
      refresh.stop();
    };
  }, [client, queries]);
  return <ConnectionContext value={connection}>{children}</ConnectionContext>;
}

const CONNECTIONS: Record<Connection, string> = {
  connecting: "Connecting…",
  live: "Live",
  lost: "Connection lost, reconnecting…",
  ended: "Stream ended. Sign in again.",
};

export function ConnectionBadge() {
  const connection = useConnection();
  return (
    <span className={`badge ${connection}`} role="status">
      {CONNECTIONS[connection]}
    </span>
  );
}

class Refresh {
  readonly #queries: QueryClient;
  readonly #due = new Set<string>();
  #quotes: QuoteEvent[] = [];
  readonly #pace = paced(() => this.#apply());

  constructor(queries: QueryClient) {
    this.#queries = queries;
  }

  after(message: StreamMessage): void {
    const type = isOfOthers(message) ? "quote.received" : message.type;
    for (const name of CHANGES[type] ?? CHANGES[type.split(".")[0] ?? ""] ?? [])
      this.#due.add(name);
    if (isQuoteEvent(message)) this.#quotes.push(message);
    this.#pace.due();
  }

  #apply(): void {
    for (const name of this.#due) void this.#queries.invalidateQueries({ queryKey: [name] });
    this.#due.clear();
    if (this.#quotes.length > 0) this.#applyQuotes(this.#quotes);
  }

  /** Quotes are not read again for each event, because there may be many a second. */
  #applyQuotes(events: readonly QuoteEvent[]): void {
    const change = <T,>(queryKey: readonly string[], after: (before: T) => T) =>
      this.#queries.setQueriesData<T>({ queryKey }, (before) => before && after(before));
    change<OwnQuotes>(OWN_QUOTES, (before) => afterEvents(before, events));
    for (const [id, own] of Map.groupBy(events, ({ data }) => data.request_id))
      change<readonly Quote[]>([...RECEIVED_QUOTES, id], (before) => receivedAfter(before, own));
    // A reading that began before the events undoes them, so they are applied again after it.
    const reading = [OWN_QUOTES, RECEIVED_QUOTES].some(
      (key) => this.#queries.isFetching({ queryKey: key }) > 0,
    );
    if (reading) this.#pace.due();
    else this.#quotes = [];
  }

  everything(): void {
    void this.#queries.invalidateQueries();
  }

  stop(): void {
    this.#pace.cancel();
  }
}
