/** The open requests of all venues, from the venues' streams. */
import type { Client, QuoteRequest } from "@rfq-custody/client";
import { useEffect, useRef, useSyncExternalStore } from "react";
import { useConfig } from "../markets.ts";
import { useClient } from "../session/session.tsx";

/** More often nobody can follow, and fifty rows take their time. */
const SHOW_MS = 200;

/** Changes as fast as messages arrive, and tells React five times a second at most. */
class Board {
  readonly #requests = new Map<string, QuoteRequest>();
  readonly #listeners = new Set<() => void>();
  #shown: readonly QuoteRequest[] = [];
  #waits = false;

  readonly subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** Newest first. */
  readonly snapshot = () => this.#shown;

  put(request: QuoteRequest): void {
    this.#requests.set(request.request_id, request);
    this.#changed();
  }

  remove(requestId: string): void {
    if (this.#requests.delete(requestId)) this.#changed();
  }

  removeVenue(venue: string): void {
    for (const [id, { venue_id }] of this.#requests)
      if (venue_id === venue) this.#requests.delete(id);
    this.#changed();
  }

  #changed(): void {
    if (this.#waits) return;
    this.#waits = true;
    setTimeout(() => {
      this.#waits = false;
      this.#shown = [...this.#requests.values()].toReversed();
      for (const listener of this.#listeners) listener();
    }, SHOW_MS);
  }
}

export function useBoard(): readonly QuoteRequest[] {
  const client = useClient();
  const { data: config } = useConfig();
  const board = useRef<Board>(undefined);
  board.current ??= new Board();
  const store = board.current;
  useEffect(() => {
    const streams = (config?.venues ?? []).map(({ venue_id }) => follow(client, venue_id, store));
    return () => streams.forEach((stream) => stream.close());
  }, [client, config?.venues, store]);
  return useSyncExternalStore(store.subscribe, store.snapshot);
}

function follow(client: Client, venue: QuoteRequest["venue_id"], board: Board) {
  const stream = client.venueStream({ venue_id: venue });
  const read = async () => {
    let inSnapshot = false;
    for await (const message of stream) {
      if (message.type === "snapshot") {
        if (!inSnapshot) board.removeVenue(venue);
        // Oldest last, so that the map is in the order of opening.
        for (const request of message.data.requests.toReversed()) board.put(request);
        inSnapshot = message.data.more;
      } else if (message.type === "request.opened") board.put(message.data);
      else if (message.type === "request.closed") board.remove(message.data.request_id);
    }
  };
  // The badge shows the state of the account's stream, which ends for the same reasons.
  read().catch(() => board.removeVenue(venue));
  return stream;
}
