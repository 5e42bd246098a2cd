/** The open requests of all venues, from the venues' streams, as rows that keep their places. */
import type { Client, QuoteRequest } from "@rfq-custody/client";
import { useEffect, useState, useSyncExternalStore } from "react";
import { arrange, type Row } from "../maker/quoting.ts";
import { useConfig } from "../markets.ts";
import { useClient } from "../session/session.tsx";
import { paced } from "../ui/clock.ts";

/** `total` is null until the first snapshot. */
export type BoardView = { readonly rows: readonly Row[]; readonly total: number | null };

/** Which requests are rows, and in which order. */
export type Choice = {
  readonly fits: (request: QuoteRequest) => boolean;
  readonly order: (one: QuoteRequest, other: QuoteRequest) => number;
};

/** Changes as fast as messages arrive, and tells React at the pace of the page. */
class Board {
  /** The grid, which tells whether somebody works in it. */
  grid: HTMLElement | null = null;
  readonly #requests = new Map<string, QuoteRequest>();
  readonly #listeners = new Set<() => void>();
  #open: readonly QuoteRequest[] = [];
  #view: BoardView = { rows: [], total: null };
  #choice: Choice = { fits: () => true, order: firstToEnd };
  readonly #pace = paced(() => {
    this.#arrange();
    for (const listener of this.#listeners) listener();
  });

  readonly subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  readonly snapshot = () => this.#view;

  put(request: QuoteRequest): void {
    this.#requests.set(request.request_id, request);
    this.changed();
  }

  remove(requestId: string): void {
    if (this.#requests.delete(requestId)) this.changed();
  }

  removeVenue(venue: string): void {
    for (const [id, { venue_id }] of this.#requests)
      if (venue_id === venue) this.#requests.delete(id);
    this.changed();
  }

  choose(choice: Choice): void {
    this.#choice = choice;
    this.changed();
  }

  readonly changed = this.#pace.due;

  #arrange(): void {
    // What was sorted before stays sorted, which makes sorting fast with thousands of requests.
    const kept = this.#open.filter((one) => this.#requests.get(one.request_id) === one);
    const known = new Set(kept);
    const added = [...this.#requests.values()].filter((request) => !known.has(request));
    this.#open = [...kept, ...added].toSorted(this.#choice.order);
    const chosen = this.#open.filter(this.#choice.fits);
    const worksIn = this.grid?.matches(":hover, :focus-within") === true;
    const focused = this.grid?.querySelector("tr:focus-within")?.id ?? "";
    const rows = arrange(this.#view.rows, chosen, worksIn ? focused : null);
    this.#view = { rows, total: this.#open.length };
  }
}

export function firstToEnd(one: QuoteRequest, other: QuoteRequest): number {
  return one.expires_at < other.expires_at ? -1 : 1;
}

export function useBoard(): readonly [BoardView, Board] {
  const client = useClient();
  const config = useConfig();
  const [board] = useState(() => new Board());
  useEffect(() => {
    const streams = (config?.venues ?? []).map(({ venue_id }) => follow(client, venue_id, board));
    return () => streams.forEach((stream) => stream.close());
  }, [client, config?.venues, board]);
  return [useSyncExternalStore(board.subscribe, board.snapshot), board];
}

function follow(client: Client, venue: QuoteRequest["venue_id"], board: Board) {
  const stream = client.venueStream({ venue_id: venue });
  const read = async () => {
    let inSnapshot = false;
    for await (const message of stream) {
      if (message.type === "snapshot") {
        if (!inSnapshot) board.removeVenue(venue);
        for (const request of message.data.requests) board.put(request);
        inSnapshot = message.data.more;
      } else if (message.type === "request.opened") board.put(message.data);
      else if (message.type === "request.closed") board.remove(message.data.request_id);
    }
  };
  // The badge shows the state of the account's stream, which ends for the same reasons.
  read().catch(() => board.removeVenue(venue));
  return stream;
}
