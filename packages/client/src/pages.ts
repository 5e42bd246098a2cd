/** A listing: one page at a time, or all of it as an async iterable that fetches as it goes. */
import type { Transport } from "./transport.ts";
import type { QueryValue } from "./wire.ts";

/** One page; `next_cursor` is null exactly when nothing follows. */
export type Page<T> = { items: T[]; next_cursor: string | null };

/** How much to read, and from where. */
export type PageOptions = {
  /** Items a page; the service's 50 when left out, 500 at most. */
  limit?: number;
  /** Where to go on: an earlier page's `next_cursor`. */
  last_cursor?: string;
};

/**
 * A listing that was asked for and not read yet: walk it, or take a page. Each page is one call, repeated when its answer is
 * lost; `Problem` and `NoAnswer` are thrown where the page is read.
 *
 * @example
 * ```ts
 * for await (const match of client.rfq.matches()) console.log(match.match_id);
 * const { items, next_cursor } = await client.rfq.matches({ limit: 10 }).page();
 * ```
 */
export class Pages<T> implements AsyncIterable<T> {
  readonly #transport: Transport;
  readonly #path: string;
  readonly #query: Record<string, QueryValue>;

  constructor(transport: Transport, path: string, query: Record<string, QueryValue>) {
    this.#transport = transport;
    this.#path = path;
    this.#query = query;
  }

  /**
   * The page at `last_cursor`; the first one when it is left out.
   *
   * @example
   * ```ts
   * const matches = client.rfq.matches({ limit: 10 });
   * const first = await matches.page();
   * const second = first.next_cursor === null ? null : await matches.page(first.next_cursor);
   * ```
   */
  page(last_cursor?: string): Promise<Page<T>> {
    const query = last_cursor === undefined ? this.#query : { ...this.#query, last_cursor };
    return this.#transport.call({ method: "GET", path: this.#path, query });
  }

  /**
   * Each item once, page after page, fetched as you go; leaving the loop fetches no more.
   *
   * @example
   * ```ts
   * for await (const deposit of client.custody.deposits()) {
   *   if (deposit.status === "credited") break;
   * }
   * ```
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    let page = await this.page();
    for (;;) {
      yield* page.items;
      // `limit: 0` hands its own cursor back for ever.
      if (page.next_cursor === null || page.items.length === 0) return;
      page = await this.page(page.next_cursor);
    }
  }

  /**
   * Everything in one array: only where you know that it is small.
   *
   * @example
   * ```ts
   * const keys = await client.auth.apiKeys().all();
   * ```
   */
  async all(): Promise<T[]> {
    const items: T[] = [];
    for await (const item of this) items.push(item);
    return items;
  }
}
