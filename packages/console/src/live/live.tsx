/**
 * What the account's stream reports, brought into the queries of the page. A stream reconnects by
 * itself and resumes where it was; until then the tables are greyed.
 */
import type { StreamMessage } from "@rfq-custody/client";
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, use, useEffect, useRef, useState } from "react";
import { useClient } from "../session/session.tsx";
import { clock } from "../ui/countdown.tsx";
import { OWN_QUOTES } from "./own-quotes.ts";
import { afterEvents, type OwnQuotes, type QuoteEvent } from "./quote-events.ts";

export type Connection = "connecting" | "live" | "lost" | "ended";

const ConnectionContext = createContext<Connection>("connecting");

export const useConnection = () => use(ConnectionContext);

/** Which queries an event of the account makes old, by its type or the first part of it. */
const CHANGES: Record<string, readonly string[]> = {
  "quote.received": ["quotes"],
  request: ["my-requests"],
  quote: ["my-requests", "quotes", "balances"],
  match: ["my-requests", "matches", "balances", "ledger", "trades"],
  deposit: ["deposits", "balances", "ledger"],
  withdrawal: ["withdrawals", "balances", "ledger"],
  protection: ["protection"],
  account: ["api-keys", "audit-events", "whoami", "policy", "withdrawal-addresses"],
};
/** Events of one burst refresh each query once, and a flood of them does so twice a second. */
const [REFRESH_MS, AGAIN_MS] = [100, 500];

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

class Refresh {
  readonly #queries: QueryClient;
  readonly #due = new Set<string>();
  #quoted: QuoteEvent[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #last = 0;

  constructor(queries: QueryClient) {
    this.#queries = queries;
  }

  after(message: StreamMessage): void {
    const { type } = message;
    const changed = CHANGES[type] ?? CHANGES[type.split(".")[0] ?? ""] ?? [];
    for (const name of changed) this.#due.add(name);
    if (message.type === "quote.opened" || message.type === "quote.closed")
      this.#quoted.push(message);
    const wait = Math.max(REFRESH_MS, this.#last + AGAIN_MS - performance.now());
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#last = performance.now();
      this.#applyQuoted(this.#quoted);
      for (const name of this.#due) void this.#queries.invalidateQueries({ queryKey: [name] });
      this.#quoted = [];
      this.#due.clear();
    }, wait);
  }

  /** Own quotes are not read again for each event, because a maker has many a second. */
  #applyQuoted(events: readonly QuoteEvent[]): void {
    if (events.length === 0) return;
    const reading = this.#queries.isFetching({ queryKey: OWN_QUOTES }) > 0;
    this.#queries.setQueryData<OwnQuotes>(
      OWN_QUOTES,
      (before) => before && afterEvents(before, events),
    );
    // A reading that began before the events would undo them.
    if (reading) void this.#queries.invalidateQueries({ queryKey: OWN_QUOTES });
  }

  everything(): void {
    void this.#queries.invalidateQueries();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
